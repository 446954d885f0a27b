//! A program in C.

use std::io::{BufRead, BufReader, Write};

use crate::support::cluster::Cluster;
use crate::support::program::Program;

#[test]
fn a_program_in_c_follows_the_slot() {
    let cluster = Cluster::start();
    let program = Program::compile("tests/c/cluster.c", &["-lportalock"]);
    // Any node will do, and this one does not have the slot.
    let home = cluster.home_of("jobs");
    let to = (home + 1) % 3;
    let mut child = program.start(&[&cluster.url_of(&[to])]);
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut order = || said.next().map(Result::unwrap);
    let mut answers = child.stdin.take().unwrap();
    assert_eq!(order().as_deref(), Some("move the slot"));
    assert_eq!(cluster.members(home, "jobs"), 1);
    cluster.move_slot("jobs", home, to);
    answers.write_all(b"done\n").unwrap();
    assert_eq!(order().as_deref(), Some("look"));
    assert_eq!((cluster.members(home, "jobs"), cluster.members(to, "jobs")), (0, 1));
    answers.write_all(b"done\n").unwrap();
    assert!(child.wait().unwrap().success());
}
