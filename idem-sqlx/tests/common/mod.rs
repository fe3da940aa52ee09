//! What the tests of stores share.
#![allow(unused_imports)]

pub(crate) use idem_testkit::play as process;
pub(crate) use idem_testkit::stores::claims::*;
pub(crate) use idem_testkit::stores::{clocks, killed, race, steps, writers};
