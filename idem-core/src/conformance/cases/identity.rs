//! Which records are one and which are two.

use crate::conformance::check::{Expect as _, Verdict};
use crate::conformance::trial::{LONG, OPERATION, Trial, answer, claim, keep};
use crate::key::{Key, Scope};
use crate::operation::Operation;
use crate::record::RecordId;

/// All of these are new, and each keeps its own answer.
async fn are_apart(t: &Trial, ids: &[RecordId]) -> Verdict {
    for (n, id) in ids.iter().enumerate() {
        let ours = t.begin(id, claim(&format!("payload {n}"))).await?;
        t.complete(id, &ours, &answer(&format!("answer {n}")), keep(LONG)).await?.is_held()?;
    }
    for (n, id) in ids.iter().enumerate() {
        t.claim(id, &claim(&format!("payload {n}"))).await?.is_completed(&answer(&format!("answer {n}")))?;
    }
    Ok(())
}

/// Keys are compared byte for byte: case, blanks, accents and Unicode forms count.
pub(crate) async fn keys_are_compared_byte_for_byte(t: &Trial) -> Verdict {
    let keys =
        ["order-ABC-1", "order-abc-1", "order-abc-1 ", " order-abc-1", "ordér-abc-1", "orde\u{301}r-abc-1"];
    let ids: Result<Vec<_>, _> = keys.into_iter().map(|key| t.id(key)).collect();
    are_apart(t, &ids?).await
}

/// One key under two operations is two records.
pub(crate) async fn operations_do_not_meet(t: &Trial) -> Verdict {
    let operations = ["payments.create", "payments.Create", "payments.refund"].map(Operation::from_static);
    let ids: Result<Vec<_>, _> = operations.iter().map(|operation| t.id_of(operation, "key")).collect();
    are_apart(t, &ids?).await
}

/// One key in two scopes is two records.
pub(crate) async fn scopes_do_not_meet(t: &Trial) -> Verdict {
    let mut ids = vec![t.id("one key")?];
    let nonce = ids[0].derive("scope");
    for scope in ["alice", "bob", "Alice"] {
        let (Ok(scope), Ok(key)) = (Scope::new(&(scope, &nonce)), Key::new("one key")) else { continue };
        ids.push(RecordId::new(&scope, &OPERATION, &key));
    }
    are_apart(t, &ids).await
}
