//! Replies: what a server of Redis answers to a command.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// A reply, as the older version of the protocol (RESP2) has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// There is nothing.
    Nil,
    /// It was done, or could not be: `+OK`.
    Status(String),
    /// Why it was not done.
    Error(String),
    /// A number.
    Integer(i64),
    /// A string.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<Reply>),
}

impl Reply {
    /// Reads one.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
        };
        let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned();
        let number = || text.parse::<i64>().map_err(|_| unexpected(&text));
        Ok(match line.first() {
            Some(b'+') => Self::Status(text),
            Some(b'-') => Self::Error(text),
            Some(b':') => Self::Integer(number()?),
            Some(b'$') => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    from.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Self::Bytes(bytes)
                }
            },
            Some(b'*') => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(length) => Self::List((0..length).map(|_| Self::read(from)).collect::<io::Result<_>>()?),
            },
            _ => return Err(unexpected(&String::from_utf8_lossy(line))),
        })
    }

    /// A number.
    ///
    /// # Panics
    ///
    /// When it is something else.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// A string, or a status.
    ///
    /// # Panics
    ///
    /// When it is something else, or no text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).expect("text")
    }

    /// A string, or a status.
    ///
    /// # Panics
    ///
    /// When it is something else.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Status(status) => status.as_bytes(),
            other => panic!("not a string: {other:?}"),
        }
    }

    /// Several.
    ///
    /// # Panics
    ///
    /// When it is something else.
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    /// Lines of `name:value`, or a list of names and values in turn.
    ///
    /// # Panics
    ///
    /// When it is something else.
    pub fn fields(&self) -> BTreeMap<String, String> {
        if let Self::List(list) = self {
            let pairs = list.chunks_exact(2);
            return pairs.map(|pair| (pair[0].text().to_owned(), pair[1].text().to_owned())).collect();
        }
        let lines = self.text().lines().filter_map(|line| line.split_once(':'));
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// All bytes that are anywhere in it, one string after the other.
    pub(crate) fn all_bytes(&self) -> Vec<u8> {
        match self {
            Self::List(list) => list.iter().flat_map(Self::all_bytes).collect(),
            Self::Nil | Self::Integer(_) => Vec::new(),
            Self::Error(text) | Self::Status(text) => text.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

fn unexpected(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read() {
        let text = b"*6\r\n$-1\r\n+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n*0\r\n";
        let read = Reply::read(&mut &text[..]).unwrap();
        let expected = [
            Reply::Nil,
            Reply::Status("OK".into()),
            Reply::Error("ERR no".into()),
            Reply::Integer(-7),
            Reply::Bytes(b"a\r\nb".to_vec()),
            Reply::List(Vec::new()),
        ];
        assert_eq!(read.list(), expected);
    }

    #[test]
    fn a_reply_that_breaks_off_is_an_error() {
        for text in ["", "$4\r\nab", "*2\r\n:1\r\n", ":1", "?\r\n"] {
            assert!(Reply::read(&mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
