//! The decimal text of numbers.

use std::io::Write as _;

/// A float below this is exactly the integer that its shortest decimal says.
const EXACT_F64: f64 = 9_007_199_254_740_992.0;
const EXACT_F32: f32 = 16_777_216.0;

/// Writes the number `int.frac` times ten to the power of `exponent`; both are ASCII digits.
pub(super) fn decimal(out: &mut Vec<u8>, negative: bool, int: &[u8], frac: &[u8], exponent: i64) {
    let mut exponent = exponent;
    let mut int = without_leading_zeros(int);
    let mut frac = without_trailing_zeros(frac);
    if frac.is_empty() {
        let trimmed = without_trailing_zeros(int);
        exponent += (int.len() - trimmed.len()) as i64;
        int = trimmed;
    } else {
        exponent -= frac.len() as i64;
        if int.is_empty() {
            frac = without_leading_zeros(frac);
        }
    }
    if int.is_empty() && frac.is_empty() {
        out.extend_from_slice(b"#0;");
        return;
    }
    out.push(b'#');
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(int);
    out.extend_from_slice(frac);
    if exponent != 0 {
        out.push(b'e');
        if exponent < 0 {
            out.push(b'-');
        }
        let mut buffer = [0; 39];
        out.extend_from_slice(digits(exponent.unsigned_abs(), &mut buffer));
    }
    out.push(b';');
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    &digits[..digits.len() - zeros]
}

/// Writes digits from the end of the buffer; nothing for 0.
fn digits(mut value: u64, buffer: &mut [u8; 39]) -> &[u8] {
    let mut at = buffer.len();
    while value > 0 {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    &buffer[at..]
}

pub(super) fn unsigned(out: &mut Vec<u8>, value: u64) {
    signed_magnitude(out, false, value);
}

pub(super) fn signed(out: &mut Vec<u8>, value: i64) {
    signed_magnitude(out, value < 0, value.unsigned_abs());
}

fn signed_magnitude(out: &mut Vec<u8>, negative: bool, magnitude: u64) {
    let mut buffer = [0; 39];
    decimal(out, negative, digits(magnitude, &mut buffer), &[], 0);
}

pub(super) fn wide(out: &mut Vec<u8>, negative: bool, mut magnitude: u128) {
    if let Ok(magnitude) = u64::try_from(magnitude) {
        return signed_magnitude(out, negative, magnitude);
    }
    let mut buffer = [0; 39];
    let mut at = buffer.len();
    while magnitude > 0 {
        at -= 1;
        buffer[at] = b'0' + (magnitude % 10) as u8;
        magnitude /= 10;
    }
    decimal(out, negative, &buffer[at..], &[], 0);
}

pub(super) fn f64(out: &mut Vec<u8>, value: f64) {
    if value.fract() == 0.0 && value.abs() < EXACT_F64 {
        signed(out, value as i64);
    } else {
        shortest(out, value.is_finite(), format_args!("{value:e}"));
    }
}

pub(super) fn f32(out: &mut Vec<u8>, value: f32) {
    if value.fract() == 0.0 && value.abs() < EXACT_F32 {
        signed(out, value as i64);
    } else {
        shortest(out, value.is_finite(), format_args!("{value:e}"));
    }
}

/// Writes a float from the standard library's scientific notation, which is the shortest that reads back.
fn shortest(out: &mut Vec<u8>, finite: bool, text: std::fmt::Arguments<'_>) {
    // 17 digits, point, two signs, `e` and three digits of exponent fit easily; a float of f64 never needs more.
    let mut buffer = [0; 40];
    let mut rest = &mut buffer[..];
    let written = rest.write_fmt(text).is_ok();
    debug_assert!(written, "a shortest float fits");
    let left = rest.len();
    let text = &buffer[..buffer.len() - left];
    if finite {
        // The exponent of a finite float always fits.
        let canonical = text_of_number(out, text);
        debug_assert!(canonical, "the standard library writes numbers");
    } else {
        let name: &[u8] = match text {
            b"inf" => b"#inf;",
            b"-inf" => b"#-inf;",
            _ => b"#nan;",
        };
        out.extend_from_slice(name);
    }
}

/// Writes a whole text that is one JSON number; `false`, and nothing written, if it is not or has no canonical form.
pub(super) fn text_of_number(out: &mut Vec<u8>, text: &[u8]) -> bool {
    match read(text) {
        Some((number, used)) if used == text.len() => {
            number.write(out);
            true
        }
        _ => false,
    }
}

/// A number as it was spelt.
pub(super) struct Spelt<'a> {
    negative: bool,
    int: &'a [u8],
    frac: &'a [u8],
    exponent: i64,
}

impl Spelt<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        decimal(out, self.negative, self.int, self.frac, self.exponent);
    }
}

/// Reads a number by JSON's grammar from the front of `text`, and tells how many bytes it took.
///
/// `None` if there is none or if its exponent cannot be kept exactly.
pub(super) fn read(text: &[u8]) -> Option<(Spelt<'_>, usize)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let int = digits_at(text, &mut at)?;
    if int.len() > 1 && int[0] == b'0' {
        return None;
    }
    let mut frac: &[u8] = &[];
    if text.get(at) == Some(&b'.') {
        at += 1;
        frac = digits_at(text, &mut at)?;
    }
    let mut exponent = 0;
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        let below_one = text.get(at) == Some(&b'-');
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let digits = without_leading_zeros(digits_at(text, &mut at)?);
        exponent = if digits.len() <= 18 {
            digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
        } else if int.iter().chain(frac).all(|digit| *digit == b'0') {
            0 // Zero is zero, however far the point is moved.
        } else {
            return None;
        };
        if below_one {
            exponent = -exponent;
        }
    }
    Some((Spelt { negative, int, frac, exponent }, at))
}

fn digits_at<'a>(text: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &text[*at..];
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *at += len;
    (len > 0).then(|| &rest[..len])
}
