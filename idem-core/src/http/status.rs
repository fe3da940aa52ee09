//! Which statuses are stored and which leave the key to a retry.

use http::StatusCode;

/// What becomes of the record after a response that its handler did not mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The response is stored and replayed.
    Answer,
    /// The work is done, but there is no response to keep: the record becomes a tombstone.
    Tombstone,
    /// Nothing is stored: a retry runs again, and the key stays bound to its payload.
    Nothing,
}

/// Decides by the status.
///
/// 2xx, 3xx and most 4xx are stored: a late duplicate must not turn a delivered decline into a charge. 401, 403, 407,
/// 408, 409, 421, 423, 425, 426, 428 and 429 say that something around the request has to change first, 5xx that the
/// work failed: those are not stored. An upgrade (101) cannot be replayed. Other 1xx, and statuses of no class, are no
/// final answer and count as failed.
pub fn keep(status: StatusCode) -> Keep {
    match status.as_u16() {
        101 => Keep::Tombstone,
        401 | 403 | 407 | 408 | 409 | 421 | 423 | 425 | 426 | 428 | 429 => Keep::Nothing,
        200..=499 => Keep::Answer,
        _ => Keep::Nothing,
    }
}

/// Whether a status is what a framework answers to a request that its extractors cannot read: 400, 413, 415 or 422.
///
/// A layer, which claims before extractors run, cannot tell such an answer from the handler's own.
pub fn is_rejection(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(code: u16) -> Keep {
        keep(StatusCode::from_u16(code).unwrap())
    }

    #[test]
    fn successes_redirects_and_declines_are_stored() {
        for code in [
            200, 201, 202, 204, 206, 299, 301, 302, 303, 304, 307, 308, 400, 402, 404, 405, 410, 412, 422,
            451, 499,
        ] {
            assert_eq!(kept(code), Keep::Answer, "{code}");
        }
    }

    #[test]
    fn what_a_retry_may_turn_into_a_success_is_not_stored() {
        for code in [401, 403, 407, 408, 409, 421, 423, 425, 426, 428, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(kept(code), Keep::Nothing, "{code}");
        }
    }

    #[test]
    fn an_upgrade_is_a_tombstone_and_what_is_no_final_status_has_failed() {
        assert_eq!(kept(101), Keep::Tombstone);
        for code in [100, 102, 103, 600, 999] {
            assert_eq!(kept(code), Keep::Nothing, "{code}");
        }
    }
}
