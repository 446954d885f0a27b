//! The command and a server that speaks TLS.

use crate::process::{Ended, Program};
use crate::support::tls::{Authority, Secure};

fn run(secure: &Secure, words: &[&str]) -> Ended {
    let program =
        Program::new(env!("CARGO_BIN_EXE_portalock")).args(&["run", "--url", &secure.url()]);
    program.args(words).args(&["job", "echo", "inside"]).run()
}

#[test]
fn files_and_names_for_tls_are_options() {
    let authority = Authority::new();
    let secure = Secure::showing(&authority, &authority.certify("locks.example", |_| {}), "yes");
    let (certificate, key) = authority.certify("client", |_| {});
    let [ca, certificate, key] =
        [authority.ca(), certificate, key].map(|path| path.display().to_string());
    let trusted = ["--tls-ca", &ca, "--tls-server-name", "locks.example"];
    let shown = ["--tls-cert", &certificate, "--tls-key", &key];
    for words in [[&trusted[..], &shown].concat(), [&["--tls-insecure"][..], &shown].concat()] {
        let ended = run(&secure, &words);
        assert_eq!((ended.code(), ended.out.as_str()), (0, "inside\n"), "{ended:?}");
    }
    for (words, code, says) in [
        ([&trusted[..2], &shown].concat(), 69, "certificate is not for"),
        ([&trusted[2..], &shown].concat(), 69, "no authority that is trusted"),
        (trusted.to_vec(), 69, "refused the TLS connection"),
        ([&trusted[..], &shown[..2]].concat(), 64, "go together"),
        (vec!["--tls-ca", &key], 64, "cannot be used"),
    ] {
        let ended = run(&secure, &words);
        assert_eq!((ended.code(), ended.out.as_str()), (code, ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(says), "{words:?}: {ended:?}");
    }
}
