//! Names the shared object by its ABI's version, and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "linux" {
        return;
    }
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libportalock.so.{major}");
    // The keep-alive thread runs this code: a dlclose must not take it away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
