//! Numbers of repeated runs: their middle and range, and how they are printed.

use std::fmt;

use serde_json::{Value, json};

/// The middle and the range of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Of no numbers it is not a number.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Spread {
        let mut all: Vec<f64> = numbers.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let at = |place: usize| all.get(place).copied().unwrap_or(f64::NAN);
        let last = all.len().saturating_sub(1);
        Spread { median: (at(last / 2) + at(all.len() / 2)) / 2.0, least: at(0), most: at(last) }
    }

    /// As an object.
    pub fn json(&self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.least, self.most)
    }
}

/// A whole number with its digits in groups of three.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, least: 7.0, most: 7.0 });
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn groups() {
        for (number, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1 000"), (1_234_567.0, "1 234 567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
