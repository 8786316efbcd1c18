// SPDX-License-Identifier: Apache-2.0
//! Finds libgpupool: the prefix in GPUPOOL_PREFIX, else pkg-config, else (feature `vendored`, a default) compiles it.
//! With feature `generate`, writes src/bindings.rs anew.

use std::env;
use std::path::Path;
use std::process::exit;

/// Every variable that is read here. Those of pkg-config and cc are watched by their crates.
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

/// Compiles the library from the repository's sources, which vendor/ links to. Static, so that programs run without it
/// being installed.
#[cfg(feature = "vendored")]
fn not_found() {
    /// As src/CMakeLists.txt has it: what is not in the library.
    const LEFT_OUT: [&str; 2] = ["cli", "frameworks"];
    /// Finds its thread's cache with a descriptor instead of a call: see src/CMakeLists.txt.
    const HOT: &str = "vendor/src/pool/pool.cpp";

    println!("cargo:rerun-if-changed=vendor/include");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let mut sources = Vec::new();
    println!("cargo:rerun-if-changed=vendor/src");
    find_sources(Path::new("vendor/src"), &mut sources);
    sources.retain(|source| {
        !LEFT_OUT.iter().any(|folder| source.starts_with(Path::new("vendor/src").join(folder)))
            && is_for(&system, source)
    });
    sources.sort();
    let hot = sources.iter().position(|source| source == Path::new(HOT)).map(|place| sources.remove(place));
    let include = env::current_dir().map(|folder| folder.join("vendor/include")).unwrap_or_default();
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").include("vendor/src").include(&include).define("NDEBUG", None);
    // What a program's own profile says is about its own code: this is as fast in debug builds too.
    build.opt_level(3).debug(false).flag("-fvisibility=hidden").flag("-fno-semantic-interposition");
    build.cargo_warnings(false);
    if system == "windows" {
        build.define("GPUPOOL_STATIC", None); // nothing is imported from a DLL
    }
    let hot = build.clone().flag_if_supported("-mtls-dialect=gnu2").files(hot).try_compile_intermediates();
    let sources = join(&sources);
    match hot.and_then(|objects| build.files(sources).objects(objects).try_compile("gpupool")) {
        Ok(()) => println!("cargo:include={}", include.display()),
        Err(error) => fail(&[
            format!("libgpupool could not be compiled: {}", first_line(&error.to_string())),
            "That needs a C++20 compiler, such as g++ 11 or clang 14; CXX names another one.".into(),
            format!(
                "Or set {PREFIX} to an installation, or PKG_CONFIG_PATH to the folder of its gpupool.pc."
            ),
        ]),
    }
}

/// Files that include ten of the sources each, as CMake does too: they compile in less than half of the time.
#[cfg(feature = "vendored")]
fn join(sources: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
    let here = env::current_dir().unwrap_or_default();
    let write = |(number, part): (usize, &[std::path::PathBuf])| {
        let path = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join(format!("unity_{number}.cpp"));
        let mut lines = String::new();
        for source in part {
            lines += &format!("#include \"{}\"\n", here.join(source).display());
        }
        std::fs::write(&path, lines).map(|()| path)
    };
    let joined: std::io::Result<Vec<_>> = sources.chunks(10).enumerate().map(write).collect();
    joined.unwrap_or_else(|error| fail(&[format!("The library's sources cannot be joined: {error}.")]))
}

#[cfg(feature = "vendored")]
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether a source is for this system, which the end of its name says: as in cmake/system.cmake.
#[cfg(feature = "vendored")]
fn is_for(system: &str, source: &Path) -> bool {
    let name = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match name.rsplit('_').next() {
        Some("posix") => system != "windows",
        Some("elsewhere") => system != "linux",
        Some(end @ ("linux" | "macos" | "windows")) => system == end,
        _ => true,
    }
}

#[cfg(feature = "vendored")]
fn find_sources(folder: &Path, sources: &mut Vec<std::path::PathBuf>) {
    let entries = folder.read_dir().map(|entries| entries.flatten().collect()).unwrap_or_else(|error| {
        fail(&[
            format!("The library's sources cannot be read: {}: {error}.", folder.display()),
            "A crate from the registry has them; in a checkout, vendor/ leads to them by symbolic links."
                .into(),
            format!(
                "Or set {PREFIX} to an installation, or PKG_CONFIG_PATH to the folder of its gpupool.pc."
            ),
        ])
    });
    let entries: Vec<std::fs::DirEntry> = entries;
    for path in entries.into_iter().map(|entry| entry.path()) {
        if path.is_dir() {
            find_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "cpp") {
            sources.push(path);
        }
    }
}

#[cfg(not(feature = "vendored"))]
fn not_found() {
    fail(&[
        "libgpupool 0.2 was not found. Have it compiled with the feature `vendored` (a C++20 compiler),"
            .into(),
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
