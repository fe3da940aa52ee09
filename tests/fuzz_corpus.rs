//! Replays what the fuzzer has found worth keeping; see `fuzz/README.md`.
#![cfg(all(feature = "axum", feature = "encryption"))]

use std::fs;
use std::path::Path;

// The fuzzer, which shares it, is another crate.
#[allow(unreachable_pub)]
#[path = "../fuzz/src/targets.rs"]
mod targets;

/// Runs a target over its corpus, and over every beginning of each of its files.
fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files = 0;
    for entry in fs::read_dir(&corpus).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        for len in (0..data.len().min(400)).chain([data.len()]) {
            target(&data[..len]);
        }
        files += 1;
    }
    assert!(files > 0, "{} is empty", corpus.display());
}

#[test]
fn keys_of_the_corpus_are_read_or_refused() {
    replay("key", targets::key);
}

#[test]
fn json_of_the_corpus_keeps_its_meaning() {
    replay("json", targets::json);
}

#[test]
fn forms_of_the_corpus_keep_their_pairs() {
    replay("form", targets::form);
}

#[test]
fn multipart_of_the_corpus_keeps_its_parts() {
    replay("multipart", targets::multipart);
}

#[test]
fn durations_of_the_corpus_are_read_or_refused() {
    replay("duration", targets::duration);
}

#[test]
fn answers_of_the_corpus_are_read_or_refused() {
    replay("answer", targets::answer);
}

#[test]
fn records_of_the_corpus_are_read_or_refused() {
    replay("record", targets::record);
}

#[test]
fn sealed_answers_of_the_corpus_are_opened_or_refused() {
    replay("sealed", targets::sealed);
}

#[test]
fn retry_afters_of_the_corpus_are_read_or_refused() {
    replay("retry_after", targets::retry_after);
}
