//! What the attribute accepts and what it says otherwise: `tests/ui/pass` compiles and runs, `tests/ui/fail` does not
//! compile and says what stands in the `.stderr` beside it.
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

#[test]
fn the_attribute_accepts_what_it_should_and_says_what_is_wrong_otherwise() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
