//! `spec`: every section of the format pages that code cites is there.
//!
//! Two forms of citation: page and `#section` anywhere in a Rust file, and the form of
//! the duvet tool, where `//=` names the section and the `//#` lines after it quote a sentence,
//! which must stand in that page word for word. A quoted sentence needs a citation with
//! `type=test` as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

const PAGES: &str = "docs/format/";

/// Checks every citation and prints each that leads nowhere.
///
/// # Errors
///
/// When one does, or a quoted sentence has no test.
pub(crate) fn run() -> Result<()> {
    let pages = pages()?;
    let mut found = Citations::default();
    for path in workspace::files()? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(workspace::root().join(&path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            found.read(&path.display().to_string(), &text, &pages);
        }
    }
    let untested = found.quoted.difference(&found.tested);
    found.faults.extend(untested.map(|sentence| format!("no test cites: {sentence}")));
    for fault in &found.faults {
        println!("{fault}");
    }
    if !found.faults.is_empty() {
        bail!("{} citations lead nowhere; the pages are under {PAGES}", found.faults.len());
    }
    println!("spec: {} citations lead to a section that is there", found.count);
    Ok(())
}

/// A page: the anchors of its sections, and its text on one line.
struct Page {
    anchors: BTreeSet<String>,
    text: String,
}

fn pages() -> Result<BTreeMap<String, Page>> {
    let mut pages = BTreeMap::new();
    for path in workspace::entries(&workspace::root().join(PAGES))? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let mut anchors: BTreeSet<String> = headings.map(anchor).collect();
        anchors.extend(explicit_anchors(&text).map(str::to_owned));
        let text = one_line(&text);
        pages.insert(workspace::name(&path), Page { anchors, text });
    }
    Ok(pages)
}

/// The anchor that a host of Markdown makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `<a id="…">`.
fn explicit_anchors(text: &str) -> impl Iterator<Item = &str> {
    text.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(id, _)| id)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What was cited so far.
#[derive(Default)]
struct Citations {
    count: usize,
    quoted: BTreeSet<String>,
    tested: BTreeSet<String>,
    faults: Vec<String>,
}

impl Citations {
    fn read(&mut self, file: &str, text: &str, pages: &BTreeMap<String, Page>) {
        let mut quote: Option<Quote> = None;
        for (index, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", index + 1);
            for rest in line.split(PAGES).skip(1) {
                self.link(&place, rest, pages);
            }
            let line = line.trim_start();
            if let Some(target) = line.strip_prefix("//= type=") {
                if let Some(open) = &mut quote {
                    open.is_test = target.trim() == "test";
                }
            } else if let Some(target) = line.strip_prefix("//= ") {
                self.close(quote.take(), pages);
                quote = Some(Quote { place, page: page_of(target), ..Quote::default() });
            } else if let (Some(open), Some(words)) = (&mut quote, line.strip_prefix("//#")) {
                open.words.push_str(words);
            } else {
                self.close(quote.take(), pages);
            }
        }
        self.close(quote.take(), pages);
    }

    /// A page, and perhaps a section of it.
    fn link(&mut self, place: &str, rest: &str, pages: &BTreeMap<String, Page>) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '#');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let target = rest[..end].trim_end_matches('.');
        if !target.contains(".md") {
            return;
        }
        self.count += 1;
        let (page, section) = target.split_once('#').unwrap_or((target, ""));
        match pages.get(page) {
            None => self.faults.push(format!("{place}: no page {PAGES}{page}")),
            Some(known) if !section.is_empty() && !known.anchors.contains(section) => {
                self.faults.push(format!("{place}: no section {section} in {PAGES}{page}"));
            }
            Some(_) => {}
        }
    }

    /// A quoted sentence must stand in its page.
    fn close(&mut self, quote: Option<Quote>, pages: &BTreeMap<String, Page>) {
        let Some(quote) = quote else { return };
        let sentence = one_line(&quote.words);
        let is_there = pages.get(&quote.page).is_some_and(|page| page.text.contains(&sentence));
        if !is_there {
            self.faults.push(format!("{}: not in {}: {sentence}", quote.place, quote.page));
        }
        let known = if quote.is_test { &mut self.tested } else { &mut self.quoted };
        known.insert(sentence);
    }
}

#[derive(Default)]
struct Quote {
    place: String,
    page: String,
    words: String,
    is_test: bool,
}

/// The file name of the page in a citation.
fn page_of(target: &str) -> String {
    let page = target.trim().trim_start_matches(PAGES);
    page.split_once('#').map_or(page, |(page, _)| page).to_owned()
}
