//! A program in C.

use crate::support::program::Program;
use crate::support::sentinel::Estate;

#[test]
fn a_program_in_c_follows_the_master() {
    let estate = Estate::start();
    let program = Program::compile("tests/c/sentinel.c", &["-lportalock"]);
    let mut talk = program.talk(&[&estate.url()]);
    talk.expect("hand over");
    assert_eq!(estate.servers[0].members("jobs"), 1);
    estate.hand_over();
    talk.done();
    talk.expect("look");
    assert_eq!(estate.servers[1].members("jobs"), 1);
    talk.done();
    talk.ends();
}
