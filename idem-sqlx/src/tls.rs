//! TLS: what to do if a server is not trusted, or does not speak it.

use std::io::ErrorKind;

/// What to tell of an error that is about TLS. What rustls refuses comes as invalid data of the connection.
pub(crate) fn refused(error: &sqlx::Error) -> Option<String> {
    let what = match error {
        sqlx::Error::Tls(what) => what.to_string(),
        sqlx::Error::Io(what) if what.kind() == ErrorKind::InvalidData => what.to_string(),
        _ => return None,
    };
    Some(format!(
        "no TLS with this server; see the mode, the host name and the root certificate of the URL: {what}"
    ))
}
