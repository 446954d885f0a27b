//! The pages for people stay true: every block of code in them is compiled or run, with the library that was
//! built together with this test and against servers of its own, and what they name is there.
//! CONTRIBUTING.md says what a block may count on.

#[path = "docs/compiled.rs"]
mod compiled;
#[path = "docs/fencing.rs"]
mod fencing;
#[path = "docs/interpreted.rs"]
mod interpreted;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/run.rs"]
mod run;
mod support;
#[path = "docs/words.rs"]
mod words;
