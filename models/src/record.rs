//! The nouns: what the store keeps about one key, and what is said about it.

/// Names whoever made a claim; never given out twice, as the engine's 128 random bits are.
pub type Owner = u8;

/// Stands for what was asked for, and for its fingerprint.
pub type Payload = u8;

/// A span of the store's clock.
pub type Ticks = u8;

/// The owner of an answer that an operator gave.
pub const OPERATOR: Owner = u8::MAX;

/// What a handler answered: told apart by who ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    /// The claim under which the handler ran.
    pub by: Owner,
    /// What had been asked for.
    pub to: Payload,
}

/// One row of the store.
///
/// Times are what is left of them, so that equal situations at different hours are one state.
/// A row whose time is over stays until it is swept; [`Protocol::read`](crate::protocol::Protocol::read)
/// says what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Record {
    /// Nothing is known of the key.
    Absent,
    /// A claim was granted and has not been ended.
    InFlight {
        /// What the key is bound to.
        bound: Payload,
        /// Who may renew, complete and release.
        owner: Owner,
        /// How many claims were granted since the key was last free and unbound.
        attempt: u8,
        /// What is left of the lease; at 0 others may take over.
        lease: Ticks,
        /// What is left of the binding; `None`: until somebody settles it.
        keep: Option<Ticks>,
    },
    /// Free, but bound to its payload.
    Failed {
        /// What the key is bound to.
        bound: Payload,
        /// The attempt that failed.
        attempt: u8,
        /// What is left of the binding.
        keep: Ticks,
    },
    /// Answered.
    Completed {
        /// What the key is bound to.
        bound: Payload,
        /// What is replayed.
        answer: Answer,
        /// Who completed it, so that a repeated completion is recognised.
        owner: Owner,
        /// What is left of the retention, its tombstone included.
        keep: Ticks,
    },
    /// Ended without an answer under `on_crash = reject`: an operator's turn.
    Unknown {
        /// What the key is bound to.
        bound: Payload,
        /// The attempt that ended so.
        attempt: u8,
    },
    /// What is read of a completed row between its expiry and the end of its tombstone.
    Expired,
}

/// How a claim is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    /// As if it had never been granted: the handler was not started.
    Forget,
    /// The handler failed and may run again for the same payload.
    KeepBinding,
    /// The handler ended without an answer and must not run again.
    Unknown,
}

/// What a caller asks of the store.
///
/// The attempt travels along for one mutant only, which fences by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Asks for the key.
    Claim {
        /// The fresh or, when repeated, the same owner.
        owner: Owner,
        /// What is to be done under the key.
        payload: Payload,
    },
    /// The second half of a claim in two steps, as only mutants have it.
    Insert {
        /// See [`Op::Claim`].
        owner: Owner,
        /// See [`Op::Claim`].
        payload: Payload,
    },
    /// Asks for another lease.
    Renew {
        /// Who asks.
        owner: Owner,
        /// The attempt it was granted.
        attempt: u8,
    },
    /// Brings the answer.
    Complete {
        /// Who asks.
        owner: Owner,
        /// The attempt it was granted.
        attempt: u8,
        /// What was asked for, hence the answer.
        payload: Payload,
    },
    /// Gives the key back.
    Release {
        /// Who asks.
        owner: Owner,
        /// The attempt it was granted.
        attempt: u8,
        /// With what left behind.
        how: Release,
    },
    /// Looks how often the key was granted, before a claim is given back; mutants only.
    Inspect {
        /// Who asks.
        owner: Owner,
    },
    /// Reads what the key says to this payload, as a holder does that was told `Lost`.
    LookUp {
        /// Who asks.
        owner: Owner,
        /// What had been asked for.
        payload: Payload,
    },
}

/// What the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reply {
    /// The key is the caller's.
    Granted {
        /// 1 for the first claim, one more for each that followed.
        attempt: u8,
    },
    /// Somebody else holds it.
    InFlight,
    /// It was answered.
    Completed(Answer),
    /// It is bound to another payload.
    Mismatch,
    /// Its answer has expired and it is not to run again yet.
    Expired,
    /// Its outcome is unknown.
    Abandoned,
    /// Inspected: somebody holds it.
    Seen {
        /// The attempt that is under way.
        attempt: u8,
    },
    /// There is no record, or a free one.
    Nothing,
    /// Done, the caller was the holder.
    Held,
    /// Nothing was changed, the caller is not the holder.
    Lost,
}

impl Op {
    /// Tells who asks.
    pub fn owner(self) -> Owner {
        match self {
            Self::Claim { owner, .. }
            | Self::Insert { owner, .. }
            | Self::Renew { owner, .. }
            | Self::Complete { owner, .. }
            | Self::Release { owner, .. }
            | Self::Inspect { owner }
            | Self::LookUp { owner, .. } => owner,
        }
    }
}
