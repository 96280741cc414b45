//! The header has a constant for every code. That every export catches a panic: see tests/c/every_export.c.

/// Every code and class of the error table has its constant in the header, with the same number.
#[test]
fn codes_have_constants() {
    let source = include_str!("errors.rs");
    let constants = |prefix: &str| -> Vec<i32> {
        let lines = source.lines().filter_map(|line| line.strip_prefix("pub const "));
        let mut numbers: Vec<i32> = lines
            .filter(|line| line.starts_with(prefix) && line.contains("_CLASS_") == prefix.contains("_CLASS_"))
            .filter_map(|line| line.split_once("= ")?.1.trim_end_matches(';').parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    let mut own: Vec<i32> = crate::error::own::TABLE.iter().map(|entry| entry.0).collect();
    own.sort_unstable();
    assert_eq!(constants("IC_ERROR_"), own);
    assert_eq!(
        constants("IC_ERROR_CLASS_"),
        (0..=crate::error::Class::NotImplemented as i32).collect::<Vec<_>>()
    );
}
