//! Clocks of programs, which may be wrong.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Lets a program that is yet to be started see a time of day that is so many seconds ahead of the machine's, or behind.
/// How much time has passed it sees as it is.
///
/// # Panics
///
/// When the library that does it is not there; says what to do.
pub fn shift_clock(program: &mut Command, seconds: i64) {
    program
        .env("LD_PRELOAD", library())
        .env("FAKETIME", format!("{seconds:+}s"))
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        // What it would share with its children stays behind when it is killed.
        .env("FAKETIME_DISABLE_SHM", "1");
}

fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().filter_map(Result::ok);
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    found.find(|library| library.is_file()).expect("libfaketime: run `scripts/setup`")
}
