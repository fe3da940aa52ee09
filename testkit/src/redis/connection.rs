//! Connections to servers of Redis: for tests, which ask one thing after the other.

use std::io::{self, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::reply::Reply;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection on which a thread waits for each reply.
#[derive(Debug)]
pub struct RedisConnection {
    stream: BufReader<TcpStream>,
}

impl RedisConnection {
    /// Connects to `redis://[[USER]:PASSWORD@]HOST:PORT[/NUMBER]`.
    ///
    /// # Errors
    ///
    /// When there is no server, it does not answer within 5 seconds, or it wants another password.
    pub fn open(url: &str) -> io::Result<Self> {
        let place = url.strip_prefix("redis://").ok_or_else(|| invalid("a URL that begins with redis://"))?;
        let (credentials, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (address, number) = place.split_once('/').unwrap_or((place, ""));
        let address = address.to_socket_addrs()?.next().ok_or_else(|| invalid("a host"))?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Self { stream: BufReader::new(stream) };
        match credentials.split_once(':') {
            Some(("", password)) => connection.expect_ok(&["AUTH", password])?,
            Some((user, password)) => connection.expect_ok(&["AUTH", user, password])?,
            None => {}
        }
        if !number.is_empty() {
            connection.expect_ok(&["SELECT", number])?;
        }
        Ok(connection)
    }

    /// Executes a command and gives the reply, be it an error.
    ///
    /// # Errors
    ///
    /// When the server does not answer within 5 seconds, or is gone.
    pub fn ask<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for part in command.iter().map(AsRef::as_ref) {
            request.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        Reply::read(&mut self.stream)
    }

    /// Executes a command.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, or answers with an error.
    pub fn command<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        let name = String::from_utf8_lossy(command[0].as_ref());
        match self.ask(command) {
            Ok(Reply::Error(error)) => panic!("{name}: {error}"),
            Ok(reply) => reply,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    fn expect_ok(&mut self, command: &[&str]) -> io::Result<()> {
        match self.ask(command)? {
            Reply::Error(error) => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }
}

fn invalid(expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("not {expected}"))
}
