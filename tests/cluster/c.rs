//! A program in C.

use crate::support::cluster::Cluster;
use crate::support::program::Program;

#[test]
fn a_program_in_c_follows_the_slot() {
    let cluster = Cluster::start();
    let program = Program::compile("tests/c/cluster.c", &["-lportalock"]);
    // Any node will do, and this one does not have the slot.
    let home = cluster.home_of("jobs");
    let to = (home + 1) % 3;
    let mut talk = program.talk(&[&cluster.url_of(&[to])]);
    talk.expect("move the slot");
    assert_eq!(cluster.members(home, "jobs"), 1);
    cluster.move_slot("jobs", home, to);
    talk.done();
    talk.expect("look");
    assert_eq!((cluster.members(home, "jobs"), cluster.members(to, "jobs")), (0, 1));
    talk.done();
    talk.ends();
}
