//! What the text of a key has to look like.

use crate::key::KeyError;

/// What the text of a key has to look like, once unquoted.
///
/// Keys are compared byte for byte all the same: one UUID in upper and in lower case is two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// Anything.
    #[default]
    Any,
    /// A UUID with its hyphens, `8e03978e-40d5-43dd-bc93-6894a57f9324`, of any version. The nil UUID is refused: it is
    /// what a variable holds that was never set, so that it would name every request.
    Uuid,
    /// A UUID of version 7, which tells when it was made and so sorts well.
    UuidV7,
}

impl Format {
    /// What a caller should send.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Any => "printable ASCII characters",
            Self::Uuid => "a UUID, such as 8e03978e-40d5-43dd-bc93-6894a57f9324",
            Self::UuidV7 => "a UUID of version 7, such as 018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57",
        }
    }

    pub(super) fn check(self, text: &str) -> Result<(), KeyError> {
        let fits = match self {
            Self::Any => true,
            Self::Uuid => uuid(text).is_some_and(|digits| digits.bytes().any(|digit| digit != b'0')),
            Self::UuidV7 => uuid(text).is_some_and(|digits| {
                let (version, variant) = (digits.as_bytes()[12], digits.as_bytes()[16]);
                version == b'7' && matches!(variant, b'8' | b'9' | b'a' | b'b' | b'A' | b'B')
            }),
        };
        if fits { Ok(()) } else { Err(KeyError::Malformed(self.expected())) }
    }
}

/// The 32 digits of a UUID that is written with its hyphens.
fn uuid(text: &str) -> Option<String> {
    let lengths = [8, 4, 4, 4, 12];
    let groups: Vec<_> = text.splitn(lengths.len() + 1, '-').collect();
    let sound = groups.len() == lengths.len()
        && groups.iter().zip(lengths).all(|(group, length)| group.len() == length)
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    sound.then(|| groups.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_with_its_hyphens_in_either_case() {
        for text in [
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            "8E03978E-40D5-43DD-BC93-6894A57F9324",
            "018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            assert_eq!(Format::Uuid.check(text), Ok(()), "{text}");
        }
        for text in [
            "",
            "abc",
            "8e03978e40d543ddbc936894a57f9324",
            "{8e03978e-40d5-43dd-bc93-6894a57f9324}",
            "8e03978e-40d5-43dd-bc93-6894a57f932",
            "8e03978e-40d5-43dd-bc93-6894a57f93240",
            "8e03978e-40d5-43dd-bc93-6894a57f9324-",
            "8e03978e-40d5-43dd-bc936-894a57f9324",
            "8e03978g-40d5-43dd-bc93-6894a57f9324",
            " 8e03978e-40d5-43dd-bc93-6894a57f9324",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(Format::Uuid.check(text), Err(KeyError::Malformed(Format::Uuid.expected())), "{text}");
        }
    }

    #[test]
    fn version_seven_says_so_in_its_digits() {
        for text in ["018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57", "018F4A5E-8C2B-7D3A-BB1C-2F6E8A4D0C57"] {
            assert_eq!(Format::UuidV7.check(text), Ok(()), "{text}");
        }
        for text in [
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            "018f4a5e-8c2b-7d3a-cb1c-2f6e8a4d0c57",
            "018f4a5e-8c2b-6d3a-9b1c-2f6e8a4d0c57",
            "018f4a5e8c2b7d3a9b1c2f6e8a4d0c57",
        ] {
            assert!(Format::UuidV7.check(text).is_err(), "{text}");
        }
    }
}
