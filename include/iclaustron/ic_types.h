/*
 * The bytes of column types that C has no type for: date and time, decimal, variable length, padding, 24 bits.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Header only, C99 and C++. ic_put_... writes a value where a row has the column, ic_get_... reads it there; both take
 * the column's length, precision and scale as IC_COLUMN has them. Numbers of 8, 16, 32 and 64 bits, FLOAT and
 * DOUBLE are what C has, and need no help.
 *
 * A put returns 0; IC_ERROR_INVALID_ARGUMENT for a value that is none, IC_ERROR_VALUE_TOO_LONG for one that the
 * column cannot hold; then nothing is written. Nothing is rounded or cut. A get of bytes that a put wrote gives
 * the value; data nodes store what they are given, so a get of other bytes can give a strange value, but never more than
 * the column's bytes are read. No pointer may be NULL.
 */
#ifndef IC_TYPES_H
#define IC_TYPES_H

#include <stdint.h>
#include <string.h>

#include <iclaustron/ic_apid.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A date, a time, or both. What a type does not have is not looked at by a put, and 0 after a get. */
typedef struct IC_TIME {
  uint32_t year, month, day;
  uint32_t hour, minute, second; /* the hours of TIME go up to 838 */
  uint32_t microsecond;
  uint32_t negative; /* 1: of TIME, a time below zero */
} IC_TIME;

/* --- bytes ------------------------------------------------------------------------------------------------- */

/* Numbers of up to eight bytes, the high byte first. */
static inline void ic_types_put_big(uint8_t *to, uint32_t bytes, uint64_t value)
{
  while (bytes > 0) {
    to[--bytes] = (uint8_t)value;
    value >>= 8;
  }
}

static inline uint64_t ic_types_get_big(const uint8_t *from, uint32_t bytes)
{
  uint64_t value = 0;
  uint32_t i;

  for (i = 0; i < bytes; i++)
    value = value << 8 | from[i];
  return value;
}

/* The same, the low byte first. */
static inline void ic_types_put_little(uint8_t *to, uint32_t bytes, uint64_t value)
{
  uint32_t i;

  for (i = 0; i < bytes; i++, value >>= 8)
    to[i] = (uint8_t)value;
}

static inline uint64_t ic_types_get_little(const uint8_t *from, uint32_t bytes)
{
  uint64_t value = 0;

  while (bytes > 0)
    value = value << 8 | from[--bytes];
  return value;
}

/* --- variable length, and padding -------------------------------------------------------------------------- */

/* VARCHAR and VARBINARY: one length byte. length: of the column. */
static inline int32_t ic_put_varchar(uint8_t *to, uint32_t length, const void *value, size_t size)
{
  if (length > 255)
    return IC_ERROR_INVALID_ARGUMENT;
  if (size > length)
    return IC_ERROR_VALUE_TOO_LONG;
  to[0] = (uint8_t)size;
  memcpy(to + 1, value, size);
  return 0;
}

/* The value's first byte; it is in the row. size: receives its bytes. */
static inline const char *ic_get_varchar(const uint8_t *from, uint32_t length, size_t *size)
{
  *size = from[0] <= length ? from[0] : length;
  return (const char *)from + 1;
}

/* LONGVARCHAR and LONGVARBINARY: two length bytes. */
static inline int32_t ic_put_longvarchar(uint8_t *to, uint32_t length, const void *value, size_t size)
{
  if (length > 65535)
    return IC_ERROR_INVALID_ARGUMENT;
  if (size > length)
    return IC_ERROR_VALUE_TOO_LONG;
  ic_types_put_little(to, 2, size);
  memcpy(to + 2, value, size);
  return 0;
}

static inline const char *ic_get_longvarchar(const uint8_t *from, uint32_t length, size_t *size)
{
  uint32_t given = (uint32_t)ic_types_get_little(from, 2);

  *size = given <= length ? given : length;
  return (const char *)from + 2;
}

/* CHAR: blanks up to the column's length. */
static inline int32_t ic_put_char(uint8_t *to, uint32_t length, const void *value, size_t size)
{
  if (size > length)
    return IC_ERROR_VALUE_TOO_LONG;
  memcpy(to, value, size);
  memset(to + size, ' ', length - size);
  return 0;
}

/* size: receives its bytes without the blanks at its end. */
static inline const char *ic_get_char(const uint8_t *from, uint32_t length, size_t *size)
{
  while (length > 0 && from[length - 1] == ' ')
    length--;
  *size = length;
  return (const char *)from;
}

/* BINARY: zeros up to the column's length, which a get cannot tell from zeros of the value. */
static inline int32_t ic_put_binary(uint8_t *to, uint32_t length, const void *value, size_t size)
{
  if (size > length)
    return IC_ERROR_VALUE_TOO_LONG;
  memcpy(to, value, size);
  memset(to + size, 0, length - size);
  return 0;
}

/* --- numbers ----------------------------------------------------------------------------------------------- */

static inline int32_t ic_put_mediumint(uint8_t *to, int32_t value)
{
  if (value < -0x800000 || value > 0x7fffff)
    return IC_ERROR_VALUE_TOO_LONG;
  ic_types_put_little(to, 3, (uint32_t)value);
  return 0;
}

static inline int32_t ic_get_mediumint(const uint8_t *from)
{
  int32_t value = (int32_t)ic_types_get_little(from, 3);

  return value < 0x800000 ? value : value - 0x1000000;
}

static inline int32_t ic_put_mediumunsigned(uint8_t *to, uint32_t value)
{
  if (value > 0xffffff)
    return IC_ERROR_VALUE_TOO_LONG;
  ic_types_put_little(to, 3, value);
  return 0;
}

static inline uint32_t ic_get_mediumunsigned(const uint8_t *from)
{
  return (uint32_t)ic_types_get_little(from, 3);
}

/* BIT of up to 64 bits. length: its bits; it takes whole 32-bit words of the row. */
static inline int32_t ic_put_bit(uint8_t *to, uint32_t length, uint64_t value)
{
  if (length == 0 || length > 64)
    return IC_ERROR_INVALID_ARGUMENT;
  if (length < 64 && value >> length != 0)
    return IC_ERROR_VALUE_TOO_LONG;
  ic_types_put_little(to, length > 32 ? 8 : 4, value);
  return 0;
}

static inline uint64_t ic_get_bit(const uint8_t *from, uint32_t length)
{
  uint64_t value = ic_types_get_little(from, length > 32 ? 8 : 4);

  return length < 64 ? value & (((uint64_t)1 << length) - 1) : value;
}

/* --- date and time ----------------------------------------------------------------------------------------- */

/* Bytes of the fraction of a second. precision: 0 to 6 digits. */
static inline uint32_t ic_types_fraction_bytes(uint32_t precision)
{
  return (precision + 1) / 2;
}

/* What one unit of a fraction of so many bytes is, in microseconds. */
static inline uint32_t ic_types_fraction_unit(uint32_t bytes)
{
  return bytes == 1 ? 10000 : bytes == 2 ? 100 : 1;
}

/* Whether microseconds have no more than so many digits. */
static inline int32_t ic_types_check_fraction(uint32_t microsecond, uint32_t precision)
{
  uint32_t unit = 1, digits;

  if (precision > 6 || microsecond > 999999)
    return IC_ERROR_INVALID_ARGUMENT;
  for (digits = precision; digits < 6; digits++)
    unit *= 10;
  return microsecond % unit == 0 ? 0 : IC_ERROR_VALUE_TOO_LONG;
}

static inline int32_t ic_types_check_date(const IC_TIME *value)
{
  return value->year > 9999 || value->month > 12 || value->day > 31 ? IC_ERROR_INVALID_ARGUMENT : 0;
}

/* Zero is a month and a day that MySQL knows; whether the month has such a day is the caller's to know. */
static inline int32_t ic_put_date(uint8_t *to, const IC_TIME *value)
{
  int32_t code = ic_types_check_date(value);

  if (code == 0)
    ic_types_put_little(to, 3, value->day | value->month << 5 | value->year << 9);
  return code;
}

static inline void ic_get_date(const uint8_t *from, IC_TIME *value)
{
  uint32_t packed = (uint32_t)ic_types_get_little(from, 3);

  memset(value, 0, sizeof *value);
  value->day = packed & 31;
  value->month = packed >> 5 & 15;
  value->year = packed >> 9;
}

/* YEAR: 1901 to 2155, and 0. */
static inline int32_t ic_put_year(uint8_t *to, uint32_t year)
{
  if (year != 0 && (year < 1901 || year > 2155))
    return IC_ERROR_INVALID_ARGUMENT;
  to[0] = (uint8_t)(year == 0 ? 0 : year - 1900);
  return 0;
}

static inline uint32_t ic_get_year(const uint8_t *from)
{
  return from[0] == 0 ? 0 : from[0] + 1900u;
}

/* TIME2: -838:59:59 to 838:59:59. precision: the column's. */
static inline int32_t ic_put_time(uint8_t *to, uint32_t precision, const IC_TIME *value)
{
  uint32_t fraction = ic_types_fraction_bytes(precision);
  int32_t code = ic_types_check_fraction(value->microsecond, precision);
  uint64_t packed, zero;

  if (code != 0)
    return code;
  if (value->hour > 838 || value->minute > 59 || value->second > 59)
    return IC_ERROR_INVALID_ARGUMENT;
  packed = (uint64_t)(value->hour << 12 | value->minute << 6 | value->second) << 8 * fraction;
  packed += value->microsecond / ic_types_fraction_unit(fraction);
  zero = (uint64_t)0x800000 << 8 * fraction;
  ic_types_put_big(to, 3 + fraction, value->negative ? zero - packed : zero + packed);
  return 0;
}

static inline void ic_get_time(const uint8_t *from, uint32_t precision, IC_TIME *value)
{
  uint32_t fraction = ic_types_fraction_bytes(precision <= 6 ? precision : 6), whole;
  uint64_t packed = ic_types_get_big(from, 3 + fraction), zero = (uint64_t)0x800000 << 8 * fraction;

  memset(value, 0, sizeof *value);
  value->negative = packed < zero;
  packed = packed < zero ? zero - packed : packed - zero;
  whole = (uint32_t)(packed >> 8 * fraction);
  value->hour = whole >> 12;
  value->minute = whole >> 6 & 63;
  value->second = whole & 63;
  if (fraction > 0)
    value->microsecond = (uint32_t)(packed & (((uint64_t)1 << 8 * fraction) - 1)) * ic_types_fraction_unit(fraction);
}

/* DATETIME2. precision: the column's. */
static inline int32_t ic_put_datetime(uint8_t *to, uint32_t precision, const IC_TIME *value)
{
  uint32_t fraction = ic_types_fraction_bytes(precision);
  int32_t code = ic_types_check_fraction(value->microsecond, precision);
  uint64_t packed;

  if (code == 0)
    code = ic_types_check_date(value);
  if (code != 0)
    return code;
  if (value->hour > 23 || value->minute > 59 || value->second > 59)
    return IC_ERROR_INVALID_ARGUMENT;
  packed = (uint64_t)((value->year * 13 + value->month) << 5 | value->day) << 17;
  packed |= value->hour << 12 | value->minute << 6 | value->second;
  ic_types_put_big(to, 5, packed + ((uint64_t)1 << 39));
  ic_types_put_big(to + 5, fraction, value->microsecond / ic_types_fraction_unit(fraction));
  return 0;
}

static inline void ic_get_datetime(const uint8_t *from, uint32_t precision, IC_TIME *value)
{
  uint32_t fraction = ic_types_fraction_bytes(precision <= 6 ? precision : 6), months;
  uint64_t packed = ic_types_get_big(from, 5) & (((uint64_t)1 << 39) - 1);

  memset(value, 0, sizeof *value);
  months = (uint32_t)(packed >> 22);
  value->year = months / 13;
  value->month = months % 13;
  value->day = (uint32_t)(packed >> 17 & 31);
  value->hour = (uint32_t)(packed >> 12 & 31);
  value->minute = (uint32_t)(packed >> 6 & 63);
  value->second = (uint32_t)(packed & 63);
  if (fraction > 0)
    value->microsecond = (uint32_t)ic_types_get_big(from + 5, fraction) * ic_types_fraction_unit(fraction);
}

/* TIMESTAMP2: seconds since the start of 1970 in UTC. precision: the column's. */
static inline int32_t ic_put_timestamp(uint8_t *to, uint32_t precision, uint32_t seconds, uint32_t microsecond)
{
  uint32_t fraction = ic_types_fraction_bytes(precision);
  int32_t code = ic_types_check_fraction(microsecond, precision);

  if (code != 0)
    return code;
  ic_types_put_big(to, 4, seconds);
  ic_types_put_big(to + 4, fraction, microsecond / ic_types_fraction_unit(fraction));
  return 0;
}

static inline void ic_get_timestamp(const uint8_t *from, uint32_t precision, uint32_t *seconds, uint32_t *microsecond)
{
  uint32_t fraction = ic_types_fraction_bytes(precision <= 6 ? precision : 6);

  *seconds = (uint32_t)ic_types_get_big(from, 4);
  *microsecond = (uint32_t)ic_types_get_big(from + 4, fraction) * ic_types_fraction_unit(fraction);
}

/* --- decimal ----------------------------------------------------------------------------------------------- */

/* Digits that a DECIMAL can have, and bytes that a text of it takes at most: sign, a zero, point, NUL. */
#define IC_DECIMAL_MAX_DIGITS 65
#define IC_DECIMAL_TEXT_SIZE (IC_DECIMAL_MAX_DIGITS + 4)

/* Bytes of so many digits on one side of the point: four for each nine, fewer for the rest. */
static inline uint32_t ic_types_digit_bytes(uint32_t digits)
{
  return digits / 9 * 4 + (digits % 9 + 1) / 2;
}

/* Bytes of a DECIMAL in a row; 0 if there is no such type. */
static inline uint32_t ic_decimal_bytes(uint32_t precision, uint32_t scale)
{
  if (precision == 0 || precision > IC_DECIMAL_MAX_DIGITS || scale > precision || scale > 30)
    return 0;
  return ic_types_digit_bytes(precision - scale) + ic_types_digit_bytes(scale);
}

/* Digits, as numbers from 0 to 9, to their bytes. Before the point the shorter group comes first, after it last. */
static inline uint8_t *ic_types_put_digits(uint8_t *to, const uint8_t *digits, uint32_t count, uint32_t first)
{
  while (count > 0) {
    uint32_t group = first > 0 ? first : count < 9 ? count : 9, value = 0, i;

    for (i = 0; i < group; i++)
      value = value * 10 + digits[i];
    ic_types_put_big(to, ic_types_digit_bytes(group), value);
    to += ic_types_digit_bytes(group);
    digits += group;
    count -= group;
    first = 0;
  }
  return to;
}

static inline const uint8_t *ic_types_get_digits(const uint8_t *from, uint8_t *digits, uint32_t count, uint32_t first)
{
  while (count > 0) {
    uint32_t group = first > 0 ? first : count < 9 ? count : 9, i;
    uint32_t value = (uint32_t)ic_types_get_big(from, ic_types_digit_bytes(group));

    for (i = group; i > 0; i--, value /= 10)
      digits[i - 1] = (uint8_t)(value % 10);
    from += ic_types_digit_bytes(group);
    digits += group;
    count -= group;
    first = 0;
  }
  return from;
}

/* DECIMAL from a text: a sign or none, digits, a point and digits or none. DECIMALUNSIGNED has the same bytes and no values
 * below zero, which the caller sees to. */
static inline int32_t ic_put_decimal(uint8_t *to, uint32_t precision, uint32_t scale, const char *text)
{
  uint8_t digits[IC_DECIMAL_MAX_DIGITS] = {0};
  uint32_t bytes = ic_decimal_bytes(precision, scale), whole = precision - scale, before = 0, after = 0, i;
  int negative = *text == '-', zero = 1;
  const char *start;

  if (bytes == 0)
    return IC_ERROR_INVALID_ARGUMENT;
  text += *text == '-' || *text == '+';
  for (start = text; text[before] >= '0' && text[before] <= '9'; before++)
    ;
  text += before;
  if (*text == '.')
    for (text++; text[after] >= '0' && text[after] <= '9'; after++)
      ;
  if (text[after] != '\0' || before + after == 0)
    return IC_ERROR_INVALID_ARGUMENT;
  for (; before > 0 && *start == '0'; before--)
    start++;
  while (after > scale && text[after - 1] == '0')
    after--;
  if (before > whole || after > scale)
    return IC_ERROR_VALUE_TOO_LONG;
  for (i = 0; i < before; i++)
    digits[whole - before + i] = (uint8_t)(start[i] - '0');
  for (i = 0; i < after; i++)
    digits[whole + i] = (uint8_t)(text[i] - '0');
  for (i = 0; i < precision; i++)
    zero = zero && digits[i] == 0;
  ic_types_put_digits(ic_types_put_digits(to, digits, whole, whole % 9), digits + whole, scale, 0);
  to[0] ^= 0x80;
  for (i = 0; negative && !zero && i < bytes; i++)
    to[i] = (uint8_t)~to[i];
  return 0;
}

/* DECIMAL to a text with all digits after the point and no needless zeros before it. text: IC_DECIMAL_TEXT_SIZE
 * bytes are enough for all. Returns its length, or -1 if there is no such type. */
static inline int32_t ic_get_decimal(const uint8_t *from, uint32_t precision, uint32_t scale, char *text)
{
  uint8_t copy[4 * IC_DECIMAL_MAX_DIGITS / 9 + 8], digits[IC_DECIMAL_MAX_DIGITS + 1];
  uint32_t bytes = ic_decimal_bytes(precision, scale), whole = precision - scale, i = 0;
  int negative = (from[0] & 0x80) == 0;
  char *end = text;

  if (bytes == 0)
    return IC_ERROR_INVALID_ARGUMENT;
  for (i = 0; i < bytes; i++)
    copy[i] = (uint8_t)(negative ? ~from[i] : from[i]);
  copy[0] ^= 0x80;
  ic_types_get_digits(ic_types_get_digits(copy, digits, whole, whole % 9), digits + whole, scale, 0);
  if (negative)
    *end++ = '-';
  for (i = 0; i + 1 < whole && digits[i] == 0; i++)
    ;
  if (whole == 0)
    *end++ = '0';
  for (; i < whole; i++)
    *end++ = (char)('0' + digits[i]);
  if (scale > 0)
    *end++ = '.';
  for (i = whole; i < precision; i++)
    *end++ = (char)('0' + digits[i]);
  *end = '\0';
  return (int32_t)(end - text);
}

#ifdef __cplusplus
}
#endif

#endif
