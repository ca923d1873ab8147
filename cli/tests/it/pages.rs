//! `docs/cli.md` runs, and `docs/kafka-facts.md` names tests that are there.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::disk::copy;

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// What a shell prints for the commands of an example, each below its command.
fn session(example: &str) -> String {
    let dir = copy("disk/clean");
    let alluvium = Path::new(env!("CARGO_BIN_EXE_alluvium")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", alluvium.display());
    let mut text = String::new();
    for command in example.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{command} 2>&1")]).env("PATH", &path).current_dir(dir.path());
        let output = shell.output().unwrap();
        writeln!(text, "$ {command}").unwrap();
        match output.status.code() {
            Some(0) => {}
            code => writeln!(text, "? {}", code.unwrap()).unwrap(),
        }
        text.push_str(str::from_utf8(&output.stdout).unwrap());
    }
    text
}

/// Whether a line is as the page says, `[..]` standing for anything.
fn matches(line: &str, expected: &str) -> bool {
    match expected.split_once("[..]") {
        None => line == expected,
        Some((before, after)) => line.starts_with(before) && line.ends_with(after),
    }
}

#[test]
fn every_example_prints_what_the_page_says() {
    let page = page("cli.md");
    let examples: Vec<&str> =
        page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 17);
    for example in examples {
        let printed = session(example);
        let same = printed.lines().count() == example.lines().count()
            && printed.lines().zip(example.lines()).all(|(line, text)| matches(line, text));
        assert!(same, "docs/cli.md says\n{example}\nand the commands print\n{printed}");
    }
}

#[test]
fn every_command_has_an_example() {
    let page = page("cli.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let shown: BTreeSet<&str> =
        headings.flat_map(|heading| heading.split([' ', ',']).take(3)).collect();
    for command in alluvium::command().get_subcommands() {
        assert!(shown.contains(command.get_name()), "{}", command.get_name());
    }
}

#[test]
fn every_fact_names_tests_that_are_there() {
    let page = page("kafka-facts.md");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    for fact in page.split("\n### ").skip(1) {
        let title = fact.lines().next().unwrap();
        assert!(fact.contains("- Often said: ") && fact.contains("- Kafka 4.4.0: "), "{title}");
        let shown = fact.split("- Shown by: ").nth(1).unwrap();
        let links: Vec<&str> = shown.split("[`").skip(1).collect();
        assert!(!links.is_empty(), "{title}");
        for link in links {
            let (test, rest) = link.split_once("`](").unwrap();
            let source = fs::read_to_string(docs.join(rest.split(')').next().unwrap())).unwrap();
            assert!(
                source.contains(&format!("#[test]\nfn {test}()"))
                    || source.contains(&format!("    #[test]\n    fn {test}()")),
                "{title}: {test}"
            );
        }
    }
}
