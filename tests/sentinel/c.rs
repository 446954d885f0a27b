//! A program in C.

use std::io::{BufRead, BufReader, Write};

use crate::support::program::Program;
use crate::support::sentinel::Estate;

#[test]
fn a_program_in_c_follows_the_master() {
    let estate = Estate::start();
    let program = Program::compile("tests/c/sentinel.c", &["-lportalock"]);
    let mut child = program.start(&[&estate.url()]);
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut order = || said.next().map(Result::unwrap);
    let mut answers = child.stdin.take().unwrap();
    assert_eq!(order().as_deref(), Some("hand over"));
    assert_eq!(estate.servers[0].members("jobs"), 1);
    estate.hand_over();
    answers.write_all(b"done\n").unwrap();
    assert_eq!(order().as_deref(), Some("look"));
    assert_eq!(estate.servers[1].members("jobs"), 1);
    answers.write_all(b"done\n").unwrap();
    assert!(child.wait().unwrap().success());
}
