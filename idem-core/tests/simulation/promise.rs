//! Promises: what has to hold in every simulation.

/// What was broken, if anything was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// Nobody is granted a key while another's lease is not over.
    OneLease,
    /// A record in its lifetime stores one answer, the first that its holder gave.
    OneAnswer,
    /// Who does not hold the key can neither complete, renew nor release, changes nothing, and is told so.
    StaleOwner,
    /// While a key is bound, nothing runs under it for another payload, and only that is told a mismatch.
    Bound,
    /// A lease that is over is no reason to refuse, and after the last fault every key comes to an answer.
    NotForEver,
    /// Under `on_crash = reject` nothing runs twice, unless it said itself that it may.
    RejectOnce,
    /// Every replay is an answer that was stored for that key and payload while the call was under way.
    TrueReplay,
    /// An answer is replayed for its whole ttl, then refused for its whole tombstone, and not longer.
    WholeTtl,
    /// A holder that repeats its claim or its completion is told the same again, and attempts are counted on.
    Repeatable,
    /// A handler runs only while its claim stands, once for each claim, and knows which attempt it is.
    OnlyGranted,
    /// What a handler answered is stored, unless it was overtaken first or the record's time was over.
    AnswerStored,
    /// Calls, handlers and background writes all end; renewal, too.
    AllEnds,
    /// A caller is told only what can be true.
    TrueRefusal,
    /// Nothing is left of a record after its time, and a sweep is noticed by nobody.
    Swept,
}
