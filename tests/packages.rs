//! What holds for every package: no unsafe code in ours, and what licences and sources the others have.

use std::fs;
use std::process::Command;

use serde_json::Value;

/// What Cargo knows of this workspace and of everything below it.
fn metadata(more: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").expect("tests are run by Cargo");
    let args = ["metadata", "--locked", "--format-version=1"];
    let output = Command::new(cargo).args(args).args(more).output().expect("Cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("Cargo writes JSON")
}

/// Every package below ours, whatever the platform.
fn dependencies() -> Vec<Value> {
    let mut metadata = metadata(&["--all-features"]);
    let packages = metadata["packages"].as_array_mut().expect("there are packages");
    packages.drain(..).filter(|package| !package["source"].is_null()).collect()
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

#[test]
fn every_package_of_ours_forbids_unsafe_code() {
    let workspace = fs::read_to_string("Cargo.toml").unwrap();
    assert!(workspace.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 10, "these are not all of ours: {}", packages.len());
    for package in packages {
        let manifest = fs::read_to_string(text(package, "manifest_path")).unwrap();
        let forbids = ["\n[lints]\nworkspace = true\n", "\n[lints.rust]\nunsafe_code = \"forbid\"\n"];
        assert!(forbids.iter().any(|lints| manifest.contains(lints)), "{}", text(package, "name"));
    }
}

/// The licences that `deny.toml` allows.
fn allowed() -> Vec<String> {
    let rules = fs::read_to_string("deny.toml").unwrap();
    let list = rules.split_once("\nallow = [").expect("a list of licences").1.split_once(']').unwrap().0;
    list.lines()
        .filter_map(|line| Some(line.trim().strip_prefix('"')?.strip_suffix("\",")?.to_owned()))
        .collect()
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed_and_comes_from_the_registry() {
    let (allowed, dependencies) = (allowed(), dependencies());
    assert!(allowed.len() > 3 && dependencies.len() > 100, "{} of {}", allowed.len(), dependencies.len());
    for package in dependencies {
        let name = text(&package, "name");
        let source = text(&package, "source");
        assert!(source.starts_with("registry+"), "{name} comes from {source}");
        // An older way to write `OR` is `/`. Parentheses stand around alternatives only.
        let licence = text(&package, "license").replace('/', " OR ");
        let is_allowed = licence.split(" AND ").all(|part| {
            part.trim_matches(['(', ')'])
                .split(" OR ")
                .any(|one| allowed.iter().any(|allowed| allowed == one.trim()))
        });
        assert!(is_allowed, "{name} is under {licence}");
    }
}
