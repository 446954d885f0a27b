//! The Ruby gem: its own tests, run with the library that was built together with this test.

mod support;

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use support::program::{root, ruby};
use support::{die_with_parent, wait_until};

/// Longer than any of them takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(200);

/// Runs one file of tests. Each starts a server of its own.
fn passes(file: &str) {
    let dir = tempfile::TempDir::new().unwrap();
    let log = dir.path().join("log");
    let out = File::create(&log).unwrap();
    let mut command = ruby(&format!("bindings/ruby/test/{file}"));
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    die_with_parent(&mut command);
    let mut child = command.spawn().expect("ruby cannot be run");
    let over = wait_until(LIMIT, || child.try_wait().unwrap().is_some());
    if !over {
        // First so that Ruby says where it is.
        support::signal(child.id() as i32, libc::SIGTERM);
        wait_until(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    let said = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    assert!(over && status.success(), "{file}: {status}\n{said}");
    // What Ruby's own warnings say of the gem counts as a failure.
    assert!(!said.contains("warning:"), "{said}");
}

#[test]
fn locks_live_and_are_refused_as_documented() {
    passes("test_lock.rb");
}

#[test]
fn waits_are_interrupted_and_leave_nobody_behind() {
    passes("test_interrupts.rb");
}

#[test]
fn odd_orders_harm_nothing() {
    passes("test_trouble.rb");
}

#[test]
fn a_loss_is_told() {
    passes("test_loss.rb");
}

#[test]
fn a_client_counts_what_it_does() {
    passes("test_stats.rb");
}

#[test]
fn no_server_is_needed_for_a_broker_in_memory() {
    passes("test_memory.rb");
}

#[test]
fn events_come_in_any_number() {
    passes("test_events.rb");
}

#[test]
fn children_leave_the_parents_locks_alone() {
    passes("test_fork.rb");
}

#[test]
fn fibers_are_not_blocked() {
    passes("test_fibers.rb");
}

#[test]
fn what_is_forgotten_is_freed() {
    passes("test_gc.rb");
}

#[test]
fn the_gem_can_be_built_installed_and_checked() {
    passes("test_package.rb");
}

#[test]
fn the_examples_run() {
    passes("test_examples.rb");
}

/// A test that is not called from here would be run by nobody.
#[test]
fn all_files_of_tests_are_run() {
    let mine = include_str!("ruby.rs");
    for entry in std::fs::read_dir(root().join("bindings/ruby/test")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "helper.rb" || mine.contains(&format!("passes(\"{name}\")")), "{name}");
    }
}
