//! Numbers in sentences.

use std::fmt::Display;

/// Such as `1 pod` or `2000 pods`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Such as `1 pod` or `2,000 pods`.
pub(crate) fn counted_in_groups(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// Formats a number with its digits in groups: `12,500`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits_from_the_right() {
        for (number, grouped) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_500, "12,500"), (1_234_567, "1,234,567")]
        {
            assert_eq!(thousands(number), grouped);
        }
    }
}
