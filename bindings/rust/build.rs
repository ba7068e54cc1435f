//! Finds Strata's archives: in the folder that LIBSTRATA_DIR names (of a build, build/release/lib),
//! otherwise where pkg-config says that Strata is installed. The name does not begin with STRATA_,
//! as the library's options do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

fn main() {
    println!("cargo:rerun-if-env-changed=LIBSTRATA_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if env::var_os("CARGO_FEATURE_HEAP").is_some() {
        link("strata_heap", "strata-heap");
    }
    if env::var_os("CARGO_FEATURE_MALLOC").is_some() {
        link("strata", "strata-static");
    }
}

/// Ends with one sentence instead of a panic with its stack.
fn fail(sentence: String) -> ! {
    eprintln!("{sentence}");
    exit(1)
}

fn link(library: &str, module: &str) {
    let folder = match env::var_os("LIBSTRATA_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => installed_folder(module).unwrap_or_else(|reason| {
            fail(format!(
                "Strata's libraries are not found: {reason}. Install Strata, let PKG_CONFIG_PATH name \
                 the folder of {module}.pc, or let LIBSTRATA_DIR name the folder of lib{library}.a"
            ))
        }),
    };
    if folder.is_relative() {
        fail(format!(
            "LIBSTRATA_DIR is '{}', which cargo would look for in the crate's folder; give a path that \
             begins with /",
            folder.display()
        ));
    }
    let archive = folder.join(format!("lib{library}.a"));
    if !archive.is_file() {
        fail(format!("{} does not exist; build or install Strata first", archive.display()));
    }
    println!("cargo:rerun-if-changed={}", archive.display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static={library}");
}

fn installed_folder(module: &str) -> Result<PathBuf, String> {
    let said = Command::new("pkg-config")
        .args(["--variable=libdir", module])
        .output()
        .map_err(|error| format!("pkg-config does not start ({error})"))?;
    if !said.status.success() {
        return Err(format!("pkg-config does not know {module}"));
    }
    // Escaped for a shell: a space in the folder's name has a backslash before it.
    let folder = String::from_utf8_lossy(&said.stdout).replace('\\', "");
    Ok(Path::new(folder.trim()).to_path_buf())
}
