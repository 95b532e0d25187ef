// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads as much of XML as a chart is made of.

/// The texts of a well-formed document, in order.
pub(crate) fn texts(document: &str) -> Vec<String> {
    let mut open = Vec::new();
    let mut texts = Vec::new();
    let mut rest = document.trim_end();
    let mut roots = 0;
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a stray bracket in {text:?}");
        if !text.trim().is_empty() {
            assert_eq!(open.last(), Some(&"text"), "{text:?} outside of a text");
            texts.push(text.to_owned());
        }
        let (tag, tail) = tail.split_once('>').expect("every tag ends");
        rest = tail;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "what was opened last is closed");
            continue;
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|of| of.is_ascii_lowercase()), "<{tag}>");
        // Name and value in turns: quotes come in pairs.
        let pieces: Vec<_> = attributes.split('"').collect();
        assert_eq!(pieces.len() % 2, 1, "<{tag}>");
        for name in pieces.iter().step_by(2).filter(|name| !name.is_empty()) {
            assert!(name.trim_start().ends_with('='), "{name:?} in <{tag}>");
        }
        roots += usize::from(open.is_empty());
        if !is_empty {
            open.push(name);
        }
    }
    assert_eq!((open.len(), rest, roots), (0, "", 1), "one root");
    texts
}
