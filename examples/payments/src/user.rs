//! Who is asking.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use crate::problem::Problem;

/// Who is asking, from `Authorization: Bearer ACCOUNT[.TOKEN]`. Anybody may claim to be anybody: this is an example.
///
/// The account is the scope of idempotency keys, the token is not: it may be another one when the client tries again.
#[derive(Debug)]
pub struct User {
    pub account: String,
}

impl<S: Sync> FromRequestParts<S> for User {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (headers.next(), headers.next()) else {
            return Err(Problem::unauthorized());
        };
        let account = header.to_str().ok().and_then(account).ok_or_else(Problem::unauthorized)?;
        Ok(Self { account: account.to_owned() })
    }
}

/// The account in a header's value.
fn account(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim_matches(' ');
    let account = token.split_once('.').map_or(token, |(account, _)| account);
    let fits = (1..=64).contains(&account.len()) && !token.contains([' ', '\t']);
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(account)
}

#[cfg(test)]
mod tests {
    use super::account;

    #[test]
    fn the_account_is_what_stands_before_the_dot() {
        assert_eq!(account("Bearer alice"), Some("alice"));
        assert_eq!(account("bearer alice.token.7"), Some("alice"));
        assert_eq!(account("Bearer  alice."), Some("alice"));
    }

    #[test]
    fn what_names_no_account_is_nobody() {
        for header in ["", "alice", "Bearer", "Bearer ", "Bearer .token", "Basic alice", "Bearer alice bob"] {
            assert_eq!(account(header), None, "{header}");
        }
        assert_eq!(account(&format!("Bearer {}", "a".repeat(65))), None);
    }
}
