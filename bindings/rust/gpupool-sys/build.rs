// SPDX-License-Identifier: Apache-2.0
//! Finds libgpupool: the prefix in GPUPOOL_PREFIX, else pkg-config, else (feature `vendored`) builds it.
//! With feature `generate`, writes src/bindings.rs anew.

use std::env;
use std::path::Path;
use std::process::exit;

/// Every variable that is read here. Those of pkg-config and cmake are watched by their crates.
const PREFIX: &str = "GPUPOOL_PREFIX";
const DOCS_RS: &str = "DOCS_RS";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in [PREFIX, DOCS_RS] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    #[cfg(feature = "generate")]
    generate();
    if env::var_os(DOCS_RS).is_some() {
        return; // documentation needs no library
    }
    if let Some(prefix) = env::var_os(PREFIX) {
        use_prefix(Path::new(&prefix));
        return;
    }
    let found = pkg_config::Config::new().range_version("0.2.0".."0.3.0").probe("gpupool");
    match found {
        Ok(library) => {
            for path in library.include_paths {
                println!("cargo:include={}", path.display());
            }
        }
        Err(_) => not_found(),
    }
}

/// Ends the build in words, where a panic would bury them under its own.
fn fail(lines: &[String]) -> ! {
    for line in lines {
        eprintln!("{line}");
    }
    exit(1);
}

/// An installation: `lib` and `include` below one folder.
fn use_prefix(prefix: &Path) {
    let library = prefix.join("lib");
    if !library.is_dir() {
        fail(&[
            format!("{PREFIX} is {prefix:?}, and {library:?} is no folder."),
            "It should be an installation of gpupool, with lib/ and include/ in it.".into(),
            "Unset it to have pkg-config look for one.".into(),
        ]);
    }
    println!("cargo:rustc-link-search=native={}", library.display());
    println!("cargo:rustc-link-lib=gpupool");
    println!("cargo:include={}", prefix.join("include").display());
}

/// Builds the library from the repository's sources, which vendor/ links to. Static, so that programs run
/// without it being installed.
#[cfg(feature = "vendored")]
fn not_found() {
    println!("cargo:rerun-if-changed=vendor");
    let prefix = cmake::Config::new("vendor")
        .profile("Release")
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .define("GPUPOOL_BUILD_TESTS", "OFF")
        .define("GPUPOOL_BUILD_CLI", "OFF")
        .define("GPUPOOL_BUILD_TORCH", "OFF")
        .define("GPUPOOL_BUILD_EXAMPLES", "OFF")
        .define("GPUPOOL_BUILD_STATIC", "ON")
        .build();
    println!("cargo:rustc-link-search=native={}", prefix.join("lib").display());
    println!("cargo:rustc-link-lib=static=gpupool");
    println!("cargo:rustc-link-lib=stdc++");
    println!("cargo:include={}", prefix.join("include").display());
}

#[cfg(not(feature = "vendored"))]
fn not_found() {
    fail(&[
        "libgpupool 0.2 was not found. Have it built with the feature `vendored` (CMake and a C++20 compiler),".into(),
        format!("or set {PREFIX} to an installation (the folder with lib/ and include/ in it),"),
        "or set PKG_CONFIG_PATH to the folder of its gpupool.pc.".into(),
    ]);
}

#[cfg(feature = "generate")]
fn generate() {
    const HEADER: &str = "vendor/include/gpupool/gpupool.h";
    println!("cargo:rerun-if-changed={HEADER}");
    bindgen::Builder::default()
        .header(HEADER)
        .disable_header_comment()
        .raw_line("// SPDX-License-Identifier: Apache-2.0")
        .raw_line("// Written by bindgen from gpupool.h: see the feature `generate`.")
        .clang_arg("-fparse-all-comments")
        .allowlist_item("(gpupool|GPUPOOL)_.*")
        // It does not fit in the i32 that bindgen picks for it; lib.rs has it.
        .blocklist_item("GPUPOOL_STREAM_UNKNOWN")
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: true })
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(false) // tests/layout.rs, from our own reading of the header, proves more
        .merge_extern_blocks(true)
        .sort_semantically(true)
        .use_core()
        .rust_target(bindgen::RustTarget::stable(77, 0).expect("a known version of Rust"))
        .rust_edition(bindgen::RustEdition::Edition2021)
        .generate()
        .expect("bindgen reads the header")
        .write_to_file("src/bindings.rs")
        .expect("src/bindings.rs can be written");
}
