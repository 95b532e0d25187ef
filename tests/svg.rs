// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Charts: every point in its place, and text that is XML.

#[path = "../examples/common/svg.rs"]
mod svg;

use svg::{page, Axis, Chart, Line};

fn chart() -> Chart {
    Chart {
        title: "a < b & c".into(),
        x: Axis::linear("time", &[0.0, 2.0, 4.0]),
        y: Axis::logarithmic("violations", &[1.0, 10.0, 100.0]),
        lines: vec![
            Line {
                name: "one".into(),
                points: vec![(0.0, 1.0), (1.0, 10.0), (4.0, 100.0)],
            },
            Line {
                name: "beyond".into(),
                points: vec![(-1.0, 0.0), (9.0, 1000.0)],
            },
        ],
    }
}

#[test]
fn points_are_where_the_axes_say() {
    let text = page(&[chart()]);
    // The area is 420 x 300, its origin at the upper left: a quarter of the way, half of the way.
    let one = r#"points="0.0,300.0 105.0,150.0 420.0,0.0""#;
    assert!(text.contains(one), "{text}");
    let beyond = r#"points="0.0,300.0 420.0,0.0""#;
    assert!(text.contains(beyond), "{text}");
}

#[test]
fn the_page_is_as_wide_as_its_charts_and_well_formed() {
    let one = page(&[chart()]);
    let two = page(&[chart(), chart()]);
    assert!(one.contains(r#"width="510""#), "{one}");
    assert!(two.contains(r#"width="1020""#), "{two}");
    assert!(two.contains("a &lt; b &amp; c"));
    // Every element is closed by itself, or later by its name.
    let mut open = Vec::new();
    for tag in two.split('<').skip(1) {
        let (tag, rest) = tag.split_once('>').expect("the end of a tag");
        assert!(!rest.contains('>'), "{rest}");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty());
        let name = name.expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
