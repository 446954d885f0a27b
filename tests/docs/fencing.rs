//! What docs/fencing.md shows refuses what it says that it refuses.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::markdown::Page;
use crate::run::run;

/// The block of the page in this language that has these words.
fn block(language: &str, words: &str) -> String {
    let blocks = Page::read(Path::new("docs/fencing.md")).blocks();
    let mut blocks = blocks.into_iter().filter(|block| block.language == language);
    let found = blocks.find(|block| block.body.contains(words));
    found.unwrap_or_else(|| panic!("no {language} block with {words}")).body
}

#[test]
fn the_statement_refuses_a_lower_token() {
    let program = format!(
        "import sqlite3\n\
         db = sqlite3.connect(':memory:')\n\
         db.execute('CREATE TABLE report (id INTEGER, body TEXT, fence INTEGER)')\n\
         db.execute('INSERT INTO report VALUES (1, \"\", 0)')\n\
         def write(token, body):\n\
         \x20   done = db.execute('''{}''', {{'id': 1, 'body': body, 'token': token}})\n\
         \x20   return done.rowcount == 1\n\
         assert write(7, 'seventh') and write(7, 'again') and write(9, 'ninth')\n\
         assert not write(8, 'late')\n\
         assert db.execute('SELECT body, fence FROM report').fetchone() == ('ninth', 9)\n",
        block("sql", "UPDATE")
    );
    run("docs/fencing.md", Command::new("python3").args(["-c", &program]));
}

#[test]
fn the_file_refuses_a_lower_token() {
    let dir = TempDir::new().unwrap();
    let source = dir.path().join("report.c");
    let main = "int main(int argc, char **argv)\n\
                {\n    return argc == 3 ? write_report(strtoull(argv[1], NULL, 10), argv[2]) : 64;\n}\n";
    std::fs::write(&source, block("c", "int write_report") + main).unwrap();
    let program = dir.path().join("writer");
    let flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o"];
    run("docs/fencing.md", Command::new("cc").args(flags).args([&program, &source]));
    let write = |token: &str, body: &str| {
        let mut command = Command::new(&program);
        command.current_dir(dir.path()).args([token, body]);
        command.status().unwrap().code().unwrap()
    };
    assert_eq!([write("7", "seventh"), write("7", "again"), write("9", "ninth")], [0, 0, 0]);
    assert_eq!(write("8", "late"), 1);
    assert_eq!(std::fs::read_to_string(dir.path().join("report")).unwrap(), "ninth");
}
