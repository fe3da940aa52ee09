//! Scripts: one for each step, sent by its digest, or whole to a server that does not have it.

use std::fmt;

use redis::{Cmd, ToRedisArgs};

/// What a script replies that was to store where an answer is, and found none there.
pub(crate) const ANSWER_IS_MISSING: i64 = -1;

/// A script, and the digest by which a server knows it.
pub(crate) struct Script {
    text: &'static str,
    sha: String,
}

/// The scripts of a store.
pub(crate) struct Scripts {
    pub(crate) claim: Script,
    pub(crate) take_over: Script,
    pub(crate) complete: Script,
    pub(crate) release: Script,
    pub(crate) renew: Script,
    pub(crate) expect: Script,
    pub(crate) look_up: Script,
    pub(crate) settle: Script,
    pub(crate) forget: Script,
}

/// A script that changes a record begins with what finds it.
macro_rules! of_a_record {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../scripts/record.lua"),
            include_str!(concat!("../scripts/", $file))
        ))
    };
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            claim: Script::new(include_str!("../scripts/claim.lua")),
            look_up: Script::new(include_str!("../scripts/look_up.lua")),
            take_over: of_a_record!("take_over.lua"),
            complete: of_a_record!("complete.lua"),
            release: of_a_record!("release.lua"),
            renew: of_a_record!("renew.lua"),
            expect: of_a_record!("expect.lua"),
            settle: of_a_record!("settle.lua"),
            forget: of_a_record!("forget.lua"),
        }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, sha: redis::Script::new(text).get_hash().to_owned() }
    }

    /// The script on its keys, for a server that has it.
    pub(crate) fn on(&self, keys: &Keys, values: &[Value<'_>]) -> Cmd {
        Self::command("EVALSHA", &self.sha, keys, values)
    }

    /// The same with its text, which the server then has.
    pub(crate) fn whole(&self, keys: &Keys, values: &[Value<'_>]) -> Cmd {
        Self::command("EVAL", self.text, keys, values)
    }

    fn command(verb: &str, script: &str, Keys { record, answer }: &Keys, values: &[Value<'_>]) -> Cmd {
        let len: usize = values.iter().map(Value::len).sum();
        let keys = record.len() + answer.as_ref().map_or(0, Vec::len);
        let mut command = Cmd::with_capacity(5 + values.len(), 16 + script.len() + keys + len);
        command.arg(verb).arg(script).arg(1 + usize::from(answer.is_some())).arg(record);
        if let Some(answer) = answer {
            command.arg(answer);
        }
        for value in values {
            command.arg(value);
        }
        command
    }
}

/// The keys of a script, all in one slot.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) record: Vec<u8>,
    /// That of the answer, where the script is to see that it is there.
    pub(crate) answer: Option<Vec<u8>>,
}

/// A value for a script. `Debug` does not show it: it may be an answer or an owner.
pub(crate) enum Value<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Int(_) => 20,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl ToRedisArgs for Value<'_> {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Int(int) => int.write_redis_args(out),
            Self::Bytes(bytes) => out.write_arg(bytes),
        }
    }
}
