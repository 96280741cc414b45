/*
 * The helpers of ic_types.h: known bytes, every value back as it was, what does not fit refused; and a row of all these types
 * through the data nodes. With a second argument the table with its row stays, for another tool to look at.
 */
#include <iclaustron/ic_types.h>

#include "test.h"

/* Bytes as hexadecimal digits. */
static const char *hex(const uint8_t *bytes, uint32_t count)
{
  static char text[256];
  uint32_t i;

  text[0] = '\0';
  for (i = 0; i < count; i++)
    snprintf(text + 2 * i, sizeof text - 2 * i, "%02x", bytes[i]);
  return text;
}

#define BYTES(count, wanted) CHECK(strcmp(hex(buffer, (count)), (wanted)) == 0)

static bool same_time(const IC_TIME *a, const IC_TIME *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static void text(void)
{
  uint8_t buffer[300];
  char long_text[300];
  size_t size;

  memset(long_text, 'x', sizeof long_text);
  OK(ic_put_varchar(buffer, 3, "abc", 3));
  BYTES(4, "03616263");
  CHECK(memcmp(ic_get_varchar(buffer, 3, &size), "abc", 3) == 0 && size == 3);
  CHECK_CODE(ic_put_varchar(buffer, 3, "abcd", 4), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_varchar(buffer, 256, "a", 1), IC_ERROR_INVALID_ARGUMENT);
  BYTES(4, "03616263"); /* nothing was written */
  OK(ic_put_varchar(buffer, 255, long_text, 255));
  CHECK(ic_get_varchar(buffer, 255, &size) == (char *)buffer + 1 && size == 255);
  OK(ic_put_varchar(buffer, 255, "", 0));
  CHECK(ic_get_varchar(buffer, 255, &size) != NULL && size == 0);
  buffer[0] = 200;
  CHECK(ic_get_varchar(buffer, 3, &size) != NULL && size == 3); /* never beyond the column */

  OK(ic_put_longvarchar(buffer, 256, long_text, 256));
  CHECK(buffer[0] == 0 && buffer[1] == 1 && buffer[2] == 'x' && buffer[257] == 'x');
  CHECK(ic_get_longvarchar(buffer, 256, &size) == (char *)buffer + 2 && size == 256);
  CHECK_CODE(ic_put_longvarchar(buffer, 256, long_text, 257), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_longvarchar(buffer, 65536, "", 0), IC_ERROR_INVALID_ARGUMENT);

  OK(ic_put_char(buffer, 5, "abc", 3));
  BYTES(5, "6162632020");
  CHECK(ic_get_char(buffer, 5, &size) == (char *)buffer && size == 3);
  CHECK_CODE(ic_put_char(buffer, 2, "abc", 3), IC_ERROR_VALUE_TOO_LONG);
  OK(ic_put_char(buffer, 2, "", 0));
  CHECK(ic_get_char(buffer, 2, &size) != NULL && size == 0);
  OK(ic_put_binary(buffer, 4, "ab", 2));
  BYTES(4, "61620000");
  CHECK_CODE(ic_put_binary(buffer, 1, "ab", 2), IC_ERROR_VALUE_TOO_LONG);
}

static void numbers(void)
{
  static const int32_t medium[] = {-0x800000, -65536, -1, 0, 1, 0x7fffff};
  uint8_t buffer[8];
  uint32_t i, length;

  for (i = 0; i < sizeof medium / sizeof *medium; i++) {
    OK(ic_put_mediumint(buffer, medium[i]));
    CHECK(ic_get_mediumint(buffer) == medium[i]);
  }
  OK(ic_put_mediumint(buffer, -2));
  BYTES(3, "feffff");
  CHECK_CODE(ic_put_mediumint(buffer, 0x800000), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_mediumint(buffer, -0x800001), IC_ERROR_VALUE_TOO_LONG);
  OK(ic_put_mediumunsigned(buffer, 0x010203));
  BYTES(3, "030201");
  CHECK(ic_get_mediumunsigned(buffer) == 0x010203);
  CHECK_CODE(ic_put_mediumunsigned(buffer, 0x1000000), IC_ERROR_VALUE_TOO_LONG);

  for (length = 1; length <= 64; length++) {
    uint64_t most = UINT64_MAX >> (64 - length);

    OK(ic_put_bit(buffer, length, most));
    CHECK(ic_get_bit(buffer, length) == most);
    if (length < 64)
      CHECK_CODE(ic_put_bit(buffer, length, most + 1), IC_ERROR_VALUE_TOO_LONG);
  }
  OK(ic_put_bit(buffer, 33, UINT64_C(0x102030405)));
  BYTES(8, "0504030201000000");
  CHECK_CODE(ic_put_bit(buffer, 0, 0), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_put_bit(buffer, 65, 0), IC_ERROR_INVALID_ARGUMENT);
}

static void dates(void)
{
  uint8_t buffer[8];
  IC_TIME value = {.year = 2024, .month = 2, .day = 29}, back;
  uint32_t year;

  OK(ic_put_date(buffer, &value));
  BYTES(3, "5dd00f");
  ic_get_date(buffer, &back);
  CHECK(same_time(&value, &back));
  for (year = 0; year <= 9999; year += 3)
    for (value.month = 0; value.month <= 12; value.month++) {
      value.year = year;
      value.day = year % 32;
      OK(ic_put_date(buffer, &value));
      ic_get_date(buffer, &back);
      CHECK(same_time(&value, &back));
    }
  value.month = 13;
  CHECK_CODE(ic_put_date(buffer, &value), IC_ERROR_INVALID_ARGUMENT);

  for (year = 1901; year <= 2155; year++) {
    OK(ic_put_year(buffer, year));
    CHECK(ic_get_year(buffer) == year);
  }
  OK(ic_put_year(buffer, 0));
  CHECK(ic_get_year(buffer) == 0);
  CHECK_CODE(ic_put_year(buffer, 1900), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_put_year(buffer, 2156), IC_ERROR_INVALID_ARGUMENT);
}

/* Microseconds that a precision can have, the largest among them. */
static uint32_t microseconds(uint32_t precision, uint32_t seed)
{
  uint32_t unit = 1, digits;

  for (digits = precision; digits < 6; digits++)
    unit *= 10;
  return (seed % 3 == 0 ? 999999 : seed * 7919 % 1000000) / unit * unit;
}

static void times(void)
{
  uint8_t buffer[8], before[8];
  uint32_t precision, i;
  IC_TIME value, back;

  memset(&value, 0, sizeof value);
  value.hour = 12, value.minute = 34, value.second = 56, value.microsecond = 780000;
  OK(ic_put_time(buffer, 2, &value));
  BYTES(4, "80c8b84e");
  value.negative = 1;
  OK(ic_put_time(buffer, 2, &value));
  BYTES(4, "7f3747b2");
  CHECK_CODE(ic_put_time(buffer, 1, &value), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_time(buffer, 7, &value), IC_ERROR_INVALID_ARGUMENT);
  value.hour = 839;
  CHECK_CODE(ic_put_time(buffer, 6, &value), IC_ERROR_INVALID_ARGUMENT);

  for (precision = 0; precision <= 6; precision++)
    for (i = 0; i < 5000; i++) {
      memset(&value, 0, sizeof value);
      value.hour = i * 17 % 839;
      value.minute = i % 60;
      value.second = i * 11 % 60;
      value.microsecond = microseconds(precision, i);
      value.negative = i % 2 == 1; /* never with a time of zero */
      OK(ic_put_time(buffer, precision, &value));
      ic_get_time(buffer, precision, &back);
      CHECK(same_time(&value, &back));

      value.negative = 0;
      value.year = i * 2, value.month = i % 13, value.day = i % 32, value.hour = i % 24;
      value.year %= 10000;
      OK(ic_put_datetime(buffer, precision, &value));
      ic_get_datetime(buffer, precision, &back);
      CHECK(same_time(&value, &back));
    }

  /* The bytes of date and time sort as the values do. */
  memset(&value, 0, sizeof value);
  value.year = 2026, value.month = 12, value.day = 31, value.hour = 23, value.minute = 59, value.second = 59;
  OK(ic_put_datetime(before, 6, &value));
  value.microsecond = 1;
  OK(ic_put_datetime(buffer, 6, &value));
  CHECK(memcmp(before, buffer, 8) < 0);
  value.hour = 24;
  CHECK_CODE(ic_put_datetime(buffer, 6, &value), IC_ERROR_INVALID_ARGUMENT);

  /* 2024-02-29 12:34:56 */
  memset(&value, 0, sizeof value);
  value.year = 2024, value.month = 2, value.day = 29, value.hour = 12, value.minute = 34, value.second = 56;
  OK(ic_put_datetime(buffer, 0, &value));
  BYTES(5, "99b2bac8b8");

  for (i = 0; i <= 6; i++) {
    uint32_t seconds, fraction;

    OK(ic_put_timestamp(buffer, i, UINT32_MAX - i, microseconds(i, i)));
    ic_get_timestamp(buffer, i, &seconds, &fraction);
    CHECK(seconds == UINT32_MAX - i && fraction == microseconds(i, i));
  }
  OK(ic_put_timestamp(buffer, 4, 1, 123400));
  BYTES(6, "0000000104d2");
  CHECK_CODE(ic_put_timestamp(buffer, 3, 1, 123400), IC_ERROR_VALUE_TOO_LONG);
}

/* A decimal's text comes back as another, canonical one. */
static void decimal(uint32_t precision, uint32_t scale, const char *given, const char *wanted)
{
  uint8_t buffer[64];
  char said[IC_DECIMAL_TEXT_SIZE];

  memset(buffer, 0xa5, sizeof buffer);
  OK(ic_put_decimal(buffer, precision, scale, given));
  CHECK(buffer[ic_decimal_bytes(precision, scale)] == 0xa5);
  CHECK(ic_get_decimal(buffer, precision, scale, said) == (int32_t)strlen(wanted));
  CHECK(strcmp(said, wanted) == 0);
}

static void decimals(void)
{
  uint8_t buffer[64];
  uint32_t precision, scale, i;

  OK(ic_put_decimal(buffer, 14, 4, "1234567890.1234"));
  BYTES(ic_decimal_bytes(14, 4), "810dfb38d204d2");
  OK(ic_put_decimal(buffer, 14, 4, "-1234567890.1234"));
  BYTES(ic_decimal_bytes(14, 4), "7ef204c72dfb2d");
  decimal(10, 2, "123.45", "123.45");
  decimal(10, 2, "+000123.4", "123.40");
  decimal(10, 2, "-.5", "-0.50");
  decimal(10, 2, "-0", "0.00");
  decimal(5, 5, "0.00001", "0.00001");
  decimal(5, 0, "99999", "99999");
  decimal(1, 0, "-7.000", "-7");
  for (precision = 1; precision <= IC_DECIMAL_MAX_DIGITS; precision++)
    for (scale = 0; scale <= precision && scale <= 30; scale++) {
      char text[IC_DECIMAL_TEXT_SIZE];
      uint32_t length = 0;

      text[length++] = '-';
      if (scale == precision)
        text[length++] = '0';
      for (i = 0; i < precision; i++) {
        if (i == precision - scale)
          text[length++] = '.';
        text[length++] = (char)('0' + (i * 7 + precision) % 9 + 1);
      }
      text[length] = '\0';
      decimal(precision, scale, text, text);
      decimal(precision, scale, text + 1, text + 1);
    }
  CHECK_CODE(ic_put_decimal(buffer, 4, 2, "100"), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_decimal(buffer, 4, 2, "1.001"), IC_ERROR_VALUE_TOO_LONG);
  CHECK_CODE(ic_put_decimal(buffer, 4, 2, ""), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_put_decimal(buffer, 4, 2, "."), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_put_decimal(buffer, 4, 2, "1e1"), IC_ERROR_INVALID_ARGUMENT);
  CHECK_CODE(ic_put_decimal(buffer, 66, 2, "1"), IC_ERROR_INVALID_ARGUMENT);
  CHECK(ic_decimal_bytes(0, 0) == 0 && ic_decimal_bytes(2, 3) == 0 && ic_decimal_bytes(65, 30) == 30);
}

/* A row of all these types. */
struct row {
  uint32_t id;
  uint8_t date[3], year[1], moment[3 + 1], instant[5 + 3], stamp[4 + 2];
  uint8_t price[7], medium[3], name[1 + 20], note[2 + 300], code[6], raw[4];
  uint8_t bits[8];
  uint8_t nulls;
};

#define FIELD(column) {.name = #column, .offset = offsetof(struct row, column)}

static void fill_row(struct row *row)
{
  const IC_TIME when = {2024, 2, 29, 12, 34, 56, 780000, 0};
  IC_TIME below = when;

  below.negative = 1;
  memset(row, 0, sizeof *row);
  row->id = 1;
  OK(ic_put_date(row->date, &when));
  OK(ic_put_year(row->year, 2024));
  OK(ic_put_time(row->moment, 2, &below));
  OK(ic_put_datetime(row->instant, 6, &when));
  OK(ic_put_timestamp(row->stamp, 3, 1709210096, 789000));
  OK(ic_put_decimal(row->price, 14, 4, "-1234567890.1234"));
  OK(ic_put_mediumint(row->medium, -70000));
  OK(ic_put_varchar(row->name, 20, "variable", 8));
  OK(ic_put_longvarchar(row->note, 300, "long", 4));
  OK(ic_put_char(row->code, 6, "fix", 3));
  OK(ic_put_binary(row->raw, 4, "\1\2", 2));
  OK(ic_put_bit(row->bits, 40, UINT64_C(0xa1b2c3d4e5)));
}

static void through_the_data_nodes(const char *nodes, bool keep)
{
  static const IC_COLUMN columns[] = {
    {.name = "id", .kind = IC_TYPE_UNSIGNED, .flags = IC_COLUMN_PRIMARY_KEY},
    {.name = "date", .kind = IC_TYPE_DATE},
    {.name = "year", .kind = IC_TYPE_YEAR},
    {.name = "moment", .kind = IC_TYPE_TIME2, .precision = 2},
    {.name = "instant", .kind = IC_TYPE_DATETIME2, .precision = 6},
    {.name = "stamp", .kind = IC_TYPE_TIMESTAMP2, .precision = 3},
    {.name = "price", .kind = IC_TYPE_DECIMAL, .precision = 14, .scale = 4},
    {.name = "medium", .kind = IC_TYPE_MEDIUMINT},
    {.name = "name", .kind = IC_TYPE_VARCHAR, .length = 20},
    {.name = "note", .kind = IC_TYPE_LONGVARCHAR, .length = 300},
    {.name = "code", .kind = IC_TYPE_CHAR, .length = 6},
    {.name = "raw", .kind = IC_TYPE_BINARY, .length = 4},
    {.name = "bits", .kind = IC_TYPE_BIT, .length = 40},
  };
  static const IC_RECORD_FIELD fields[] = {
    FIELD(id),     FIELD(date), FIELD(year), FIELD(moment), FIELD(instant), FIELD(stamp), FIELD(price),
    FIELD(medium), FIELD(name), FIELD(note), FIELD(code),   FIELD(raw),     FIELD(bits),
  };
  enum { COUNT = sizeof columns / sizeof *columns };
  struct fixture f = {.name = "c_types"};
  struct row written, *row;
  IC_QUERY_ID query;
  int32_t dropped;

  OK(ic_apid_global_create(&f.glob));
  fixture_must(&f, "connect", ic_apid_global_connect(f.glob, nodes, NULL));
  dropped = ic_apid_table_drop(f.glob, "test", f.name);
  CHECK(dropped == 0 || dropped == 723);
  fixture_must(&f, "create", ic_apid_table_create(f.glob, "test", f.name, columns, COUNT, sizeof *columns, NULL));
  fixture_must(&f, "open", ic_apid_table_open(f.glob, "test", f.name, &f.table));
  fixture_must(&f, "record", ic_record_create(f.table, fields, COUNT, sizeof *fields, sizeof(struct row), &f.rec));
  OK(ic_apid_conn_create(f.glob, &f.conn));
  query = new_query(&f);

  /* What a put takes is what the dictionary has: the bytes of each column. */
  {
    IC_COLUMN column;
    OK(ic_table_column(f.table, 6, &column, sizeof column));
    CHECK(column.row_bytes == ic_decimal_bytes(column.precision, column.scale) && column.row_bytes == 7);
    OK(ic_table_column(f.table, 4, &column, sizeof column));
    CHECK(column.row_bytes == 8 && column.precision == 6);
  }

  fill_row(&written);
  row = (struct row *)ic_apid_query_key_row(f.conn, query, NULL);
  CHECK(row != NULL);
  *row = written;
  row = (struct row *)ic_apid_query_attr_row(f.conn, query, NULL);
  CHECK(row != NULL);
  *row = written;
  OK(ic_apid_conn_write_key_sync(f.conn, query, NULL, 60000));
  memset(row, 0, sizeof *row);
  OK(ic_apid_conn_read_key_sync(f.conn, query, NULL, 60000));
  CHECK(memcmp(row, &written, sizeof written) == 0);

  OK(ic_apid_conn_free(f.conn));
  OK(ic_record_free(f.rec));
  OK(ic_apid_table_close(f.table));
  if (!keep)
    fixture_must(&f, "drop", ic_apid_table_drop(f.glob, "test", f.name));
  fixture_must(&f, "free", ic_apid_global_free(f.glob));
}

int main(int argc, char **argv)
{
  test_time_limit(120);
  text();
  numbers();
  dates();
  times();
  decimals();
  if (argc > 1)
    through_the_data_nodes(argv[1], argc > 2);
  return 0;
}
