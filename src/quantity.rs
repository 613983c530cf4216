//! Quantities of resources, such as `500m`, `2` or `1.5Gi`.

use std::fmt;

/// The longest text that is read as a quantity, in bytes.
const LONGEST: usize = 32;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Each with its power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// A quantity in thousandths, rounded up, as the scheduler counts cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity {
    milli: i128,
    /// Whether it is printed with `Ki`, `Mi` and so on.
    is_binary: bool,
}

impl Quantity {
    /// Reads what the API server accepts as a quantity that is not negative.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        if text.len() > LONGEST {
            return None;
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let decimals = i32::try_from(fraction.len()).ok()?;
        if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
            let factor = 1_i128 << (10 * (power + 1));
            return Some(Self { milli: scaled(digits.checked_mul(factor)?, 3 - decimals)?, is_binary: true });
        }
        let power = match DECIMAL.iter().find(|(unit, _)| *unit == suffix) {
            Some((_, power)) => *power,
            None => suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|power: &i32| power.abs() <= 18)?,
        };
        Some(Self { milli: scaled(digits, power + 3 - decimals)?, is_binary: false })
    }

    /// For comparisons.
    #[must_use]
    pub fn milli(self) -> i128 {
        self.milli
    }

    #[must_use]
    pub fn is_zero(self) -> bool {
        self.milli == 0
    }

    /// The sum, printed as the first that is not zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let is_binary = if self.is_zero() { other.is_binary } else { self.is_binary };
        Self { milli: self.milli.saturating_add(other.milli), is_binary }
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.milli > self.milli { other } else { self }
    }

    /// Like [`fmt::Display`], but with one decimal instead of a long number, rounded down: `15.6Gi` for `16384256Ki`.
    #[must_use]
    pub fn short(self) -> String {
        let exact = self.to_string();
        let value = self.milli / 1000;
        let unit = BINARY.iter().enumerate().rev().map(|(power, unit)| (1_i128 << (10 * (power + 1)), unit));
        match unit.into_iter().find(|(size, _)| value >= *size) {
            Some((size, unit)) if self.is_binary && exact.len() > 6 => {
                format!("{}.{}{unit}", value / size, value % size * 10 / size)
            }
            _ => exact,
        }
    }
}

/// The number times this power of ten, rounded up.
fn scaled(number: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 { number.checked_mul(factor) } else { Some((number / factor) + i128::from(number % factor > 0)) }
}

/// As Kubernetes prints it, but with the digits of numbers below a million.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.milli % 1000 != 0 {
            return write!(f, "{}m", self.milli);
        }
        let value = self.milli / 1000;
        let binary = BINARY.iter().enumerate().map(|(power, unit)| (1_i128 << (10 * (power + 1)), *unit));
        let decimal = DECIMAL
            .iter()
            .filter(|(_, power)| *power > 3)
            .map(|(unit, power)| (10_i128.pow(power.unsigned_abs()), *unit));
        let units: Vec<_> = if self.is_binary { binary.collect() } else { decimal.collect() };
        match units.into_iter().rev().find(|(size, _)| value > 0 && value % size == 0) {
            Some((size, unit)) => write!(f, "{}{unit}", value / size),
            None => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_api_server_accepts() {
        for (text, milli, printed, short) in [
            ("0", 0, "0", "0"),
            ("500m", 500, "500m", "500m"),
            ("0.5", 500, "500m", "500m"),
            ("1500m", 1500, "1500m", "1500m"),
            ("2", 2000, "2", "2"),
            ("+3", 3000, "3", "3"),
            ("1.5Gi", 1_610_612_736_000, "1536Mi", "1536Mi"),
            ("16384256Ki", 16_777_478_144_000, "16384256Ki", "15.6Gi"),
            ("2G", 2_000_000_000_000, "2G", "2G"),
            ("1e3", 1_000_000, "1000", "1000"),
            ("12E6", 12_000_000_000, "12M", "12M"),
            ("1n", 1, "1m", "1m"),
            (".5", 500, "500m", "500m"),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (quantity.milli(), quantity.to_string().as_str(), quantity.short().as_str()),
                (milli, printed, short)
            );
        }
        for text in ["", "m", "x", "1x", "-1", "1.2.3", "1 Gi", "1e99", "9".repeat(33).as_str(), "é"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_sum_is_printed_as_its_first_part() {
        let parse = |text| Quantity::parse(text).unwrap();
        assert_eq!(parse("0").plus(parse("1Gi")).plus(parse("512Mi")).to_string(), "1536Mi");
        assert_eq!(parse("250m").plus(parse("0.75")).to_string(), "1");
        assert_eq!(parse("1Gi").plus(parse("1024")).to_string(), "1048577Ki");
        assert_eq!(parse("1Gi").max(parse("2G")).to_string(), "2G");
    }
}
