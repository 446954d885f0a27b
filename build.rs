//! Names the shared object by its ABI's version, and keeps it loaded; makes the command's completions and
//! manual pages.

#[cfg(feature = "command")]
#[allow(dead_code)]
#[path = "src/bin/portalock/arguments.rs"]
mod arguments;
#[cfg(feature = "command")]
#[path = "src/bin/portalock/assets.rs"]
mod assets;
#[cfg(feature = "command")]
#[allow(dead_code)]
#[path = "src/bin/portalock/exit.rs"]
mod exit;
#[cfg(feature = "command")]
#[allow(dead_code)]
#[path = "src/bin/portalock/pages.rs"]
mod pages;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    name_the_shared_object();
    #[cfg(feature = "command")]
    assets::make();
}

fn name_the_shared_object() {
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "linux" {
        return;
    }
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libportalock.so.{major}");
    // The keep-alive thread runs this code: a dlclose must not take it away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
