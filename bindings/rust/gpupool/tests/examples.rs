// SPDX-License-Identifier: Apache-2.0
//! The examples that other languages have too do what they should.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// An example, which cargo builds before the tests.
fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("examples").join(name)
}

fn example(name: &str, argument: &Path) -> Output {
    Command::new(built(name)).arg(argument).env("GPUPOOL_BACKEND", "sim").output().unwrap()
}

fn scenario(name: &str, expected: &str) -> Output {
    let text = format!(
        r#"{{"name": "{name}", "description": "", "sim": {{"capacity_bytes": 1073741824}}, "steps": [
        {{"op": "create", "pool": "p", "fraction": 0.5}},
        {{"op": "stream", "pool": "p", "stream": "s"}},
        {{"op": "malloc", "pool": "p", "block": "b#", "size": 129, "stream": "s", "for": [0, 6, 2],
          "expect": {{"stats": {{"all.requested_bytes.current": {expected}}}}}, "save": {{"some": "misses"}}}},
        {{"op": "free", "pool": "p", "block": "b4"}},
        {{"op": "free", "pool": "p", "block": "b4", "expect": {{
          "status": "GPUPOOL_ERROR_UNKNOWN_POINTER", "message_contains": "freed",
          "stats": {{"misses": {{"min": {{"saved": "some", "plus": 0}}}}}}}}}},
        {{"op": "malloc", "pool": "p", "block": "c", "size": {{"of_total": 0.6}},
          "expect": {{"status": "GPUPOOL_ERROR_OVER_LIMIT"}}}}]}}"#
    );
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    std::fs::write(&file, text).unwrap();
    example("scenario", &file)
}

#[test]
fn a_scenario_that_holds_prints_its_statistics() {
    let output = scenario("good", "387");
    assert!(output.status.success(), "{output:?}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["name"], "good");
    assert_eq!(line["pools"]["p"]["all.allocated_blocks.current"], 2);
    assert_eq!(line["pools"]["p"].as_object().unwrap().len(), 3 * 7 * 4 + 12 + 12);
}

#[test]
fn a_scenario_that_does_not_hold_says_where() {
    let output = scenario("bad", "388");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let words = String::from_utf8(output.stderr).unwrap();
    for part in ["bad.json: step 3: {", "expected 388", "found 387"] {
        assert!(words.contains(part), "{words}");
    }
}

/// Against the command where it is installed, as in the project's own checks.
#[test]
fn a_replay_has_the_figures_of_the_command() {
    let command = match std::env::var_os("GPUPOOL_PREFIX") {
        Some(prefix) => Path::new(&prefix).join("bin/gpupool"),
        None => "gpupool".into(),
    };
    for (trace, events) in [("streams_prefetch", 8751), ("zero_gather", 14065)] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data");
        let file = data.join(format!("{trace}.trace.gz"));
        let output = example("replay", &file);
        let ours: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(ours["events"], events);
        let Ok(output) =
            Command::new(&command).args(["replay", "--device=sim", "--json"]).arg(&file).output()
        else {
            continue;
        };
        let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, value) in ours.as_object().unwrap() {
            if !["language", "ns_per_event"].contains(&name.as_str()) {
                assert_eq!(*value, theirs[name], "{trace}: {name}");
            }
        }
    }
}

/// A library of another version is refused in words: here one that says so, which the loader finds first.
#[test]
fn another_version_of_the_library_is_refused() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("version.c"), folder.join("version.so"));
    let text = "unsigned gpupool_version(void) { return 7701; }\n\
                const char* gpupool_version_string(void) { return \"0.77.1\"; }\n";
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let output = Command::new(built("basic")).env("LD_PRELOAD", library).output().unwrap();
    assert!(!output.status.success());
    let words = String::from_utf8(output.stderr).unwrap();
    let expected =
        "Error: Unsupported: the loaded libgpupool has version 0.77.1, and this program was built for 0.2: ";
    assert!(words.starts_with(expected), "{words}");
}

#[test]
fn the_kernel_does_without_a_gpu() {
    let output = Command::new(built("kernel")).env("GPUPOOL_BACKEND", "sim").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"the simulated device has no kernels"), "{output:?}");
}
