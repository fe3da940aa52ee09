//! What the attribute accepts and what it says otherwise: `pass` compiles and runs, `fail` does not compile and says what
//! stands in the `.stderr` beside it.
//!
//! `TRYBUILD=overwrite cargo test --all-features --test ui` writes the messages anew; read them before you commit.
#![cfg(all(
    feature = "actix-web",
    feature = "axum",
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite",
    feature = "tower"
))]

mod pass;

// With a program that is to pass, trybuild would build all of them one after the other; these are checked together.
#[test]
fn the_attribute_says_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
