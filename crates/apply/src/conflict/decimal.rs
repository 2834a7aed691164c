//! Exact decimal numbers of any length, for methods that calculate.

use std::cmp::Ordering;

/// The largest exponent that is written out in digits; beyond it a text is not taken for a number.
const EXPONENT_MAX: i32 = 20_000;

/// A finite decimal number.
#[derive(Clone, Debug)]
pub(crate) struct Decimal {
    negative: bool,
    /// Digits, most significant first; at least one.
    digits: Vec<u8>,
    /// How many of them stand behind the point.
    scale: usize,
}

impl Decimal {
    /// Reads `-12.50`, `+3`, `.5` or `1e-7`; `None` for everything else, `NaN` and infinities among it.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        let text = std::str::from_utf8(text).ok()?;
        let (negative, text) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(place) => (&text[..place], text[place + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        if is_empty || !is_number(whole) || !is_number(fraction) || exponent.abs() > EXPONENT_MAX {
            return None;
        }
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
        let mut scale = fraction.len();
        if exponent < 0 {
            scale += exponent.unsigned_abs() as usize;
        } else {
            let shift = exponent as usize;
            digits.resize(digits.len() + shift.saturating_sub(scale), 0);
            scale = scale.saturating_sub(shift);
        }
        // Digits in front of the point, so that the scale never reaches beyond the first digit.
        let missing = (scale + 1).saturating_sub(digits.len());
        digits.splice(0..0, std::iter::repeat_n(0, missing));
        Some(Decimal { negative, digits, scale })
    }

    /// The sum, with as many places as the one that has more.
    pub(crate) fn plus(&self, other: &Decimal) -> Decimal {
        let (left, right, scale) = aligned(self, other);
        if self.negative == other.negative {
            return Decimal { negative: self.negative, digits: sum(&left, &right), scale };
        }
        match magnitude(&left, &right) {
            Ordering::Less => Decimal { negative: other.negative, digits: difference(&right, &left), scale },
            _ => Decimal { negative: self.negative, digits: difference(&left, &right), scale },
        }
    }

    /// The difference, with as many places as the one that has more.
    pub(crate) fn minus(&self, other: &Decimal) -> Decimal {
        self.plus(&Decimal { negative: !other.negative, ..other.clone() })
    }

    /// The exact half.
    pub(crate) fn half(&self) -> Decimal {
        let mut rest = 0;
        let mut digits: Vec<u8> = Vec::with_capacity(self.digits.len() + 1);
        for digit in self.digits.iter().chain(&[0]) {
            let value = rest * 10 + digit;
            digits.push(value / 2);
            rest = value % 2;
        }
        let mut scale = self.scale + 1;
        if digits.last() == Some(&0) {
            digits.pop();
            scale -= 1;
        }
        Decimal { negative: self.negative, digits, scale }
    }

    /// Rounded to `places` behind the point; a half goes away from zero.
    pub(crate) fn rounded(mut self, places: usize) -> Decimal {
        if self.scale <= places {
            return self;
        }
        let kept = self.digits.len() - (self.scale - places);
        let round_up = self.digits[kept] >= 5;
        self.digits.truncate(kept);
        if self.digits.is_empty() {
            self.digits.push(0);
        }
        if round_up {
            self.digits = sum(&self.digits, &[1]);
        }
        Decimal { scale: places, ..self }
    }

    /// Which of the two is greater.
    pub(crate) fn order(&self, other: &Decimal) -> Ordering {
        let (left, right, _) = aligned(self, other);
        let is_zero = |digits: &[u8]| digits.iter().all(|digit| *digit == 0);
        match (self.negative && !is_zero(&left), other.negative && !is_zero(&right)) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => magnitude(&left, &right),
            (true, true) => magnitude(&right, &left),
        }
    }

    /// The number as text, all its places kept.
    pub(crate) fn text(&self) -> String {
        let point = self.digits.len() - self.scale;
        let start = self.digits[..point - 1].iter().position(|digit| *digit != 0).unwrap_or(point - 1);
        let mut text = String::with_capacity(self.digits.len() + 2);
        if self.negative && self.digits.iter().any(|digit| *digit != 0) {
            text.push('-');
        }
        for (place, digit) in self.digits.iter().enumerate().skip(start) {
            if place == point {
                text.push('.');
            }
            text.push(char::from(b'0' + digit));
        }
        text
    }
}

/// Digits of both, padded to the same scale and length.
fn aligned(left: &Decimal, right: &Decimal) -> (Vec<u8>, Vec<u8>, usize) {
    let scale = left.scale.max(right.scale);
    let whole = (left.digits.len() - left.scale).max(right.digits.len() - right.scale);
    let pad = |number: &Decimal| {
        let front = whole - (number.digits.len() - number.scale);
        let mut digits = vec![0; front];
        digits.extend(&number.digits);
        digits.resize(whole + scale, 0);
        digits
    };
    (pad(left), pad(right), scale)
}

fn magnitude(left: &[u8], right: &[u8]) -> Ordering {
    left.cmp(right)
}

/// Sum of two digit strings that end at the same place; the shorter is taken to start with zeros.
fn sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let length = left.len().max(right.len());
    let mut digits = vec![0; length + 1];
    let mut carry = 0;
    for place in 0..length {
        let at = |digits: &[u8]| digits.len().checked_sub(place + 1).map_or(0, |index| digits[index]);
        let value = at(left) + at(right) + carry;
        digits[length - place] = value % 10;
        carry = value / 10;
    }
    digits[0] = carry;
    digits
}

/// Difference of two digit strings of one length, the first of which is not smaller.
fn difference(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut digits = vec![0; left.len()];
    let mut borrow = 0;
    for place in (0..left.len()).rev() {
        let taken = right[place] + borrow;
        borrow = u8::from(left[place] < taken);
        digits[place] = left[place] + borrow * 10 - taken;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn sums_and_differences_are_exact_at_any_length() {
        for (left, right, plus, minus) in [
            ("1", "2", "3", "-1"),
            ("-1.50", "0.5", "-1.00", "-2.00"),
            ("0.1", "0.2", "0.3", "-0.1"),
            ("99999999999999999999999999", "1", "100000000000000000000000000", "99999999999999999999999998"),
            ("-5", "-7", "-12", "2"),
            ("1e-7", "1", "1.0000001", "-0.9999999"),
            ("12e2", ".5", "1200.5", "1199.5"),
        ] {
            assert_eq!(number(left).plus(&number(right)).text(), plus);
            assert_eq!(number(left).minus(&number(right)).text(), minus);
        }
    }

    #[test]
    fn halves_are_exact_and_rounding_goes_away_from_zero() {
        for (text, half, whole) in [("5", "2.5", "3"), ("-5", "-2.5", "-3"), ("4", "2", "2"), ("0.01", "0.005", "0")] {
            assert_eq!(number(text).half().text(), half);
            assert_eq!(number(text).half().rounded(0).text(), whole);
        }
        assert_eq!(number("9.995").rounded(2).text(), "10.00");
        assert_eq!(number("0.5").rounded(0).text(), "1");
    }

    #[test]
    fn numbers_are_ordered_by_value_and_not_by_text() {
        use Ordering::{Equal, Greater, Less};
        for (left, order, right) in [
            ("9", Less, "10"),
            ("-9", Greater, "-10"),
            ("1.50", Equal, "1.5"),
            ("0", Equal, "-0.00"),
            ("-0.1", Less, "0"),
            ("1e3", Equal, "1000"),
        ] {
            assert_eq!(number(left).order(&number(right)), order, "{left} {right}");
        }
    }

    #[test]
    fn what_is_no_finite_number_is_refused() {
        for text in ["", "-", ".", "NaN", "Infinity", "1.2.3", "1e", "0x10", "1e999999", "ten"] {
            assert!(Decimal::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
