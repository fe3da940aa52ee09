//! What is told of a replay.

use http::response::Parts;

/// A stored response on its way to its caller: what [`on_replay`](super::policy::HttpPolicy::on_replay) is told.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    operation: &'a str,
    parts: &'a Parts,
}

impl<'a> Replay<'a> {
    /// A replay of an operation's response.
    pub fn new(operation: &'a str, parts: &'a Parts) -> Self {
        Self { operation, parts }
    }

    /// The operation whose response it is.
    pub fn operation(&self) -> &'a str {
        self.operation
    }

    /// Status and headers of the response, the marker of the replay among them.
    pub fn parts(&self) -> &'a Parts {
        self.parts
    }
}
