// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The part of PromQL that the alerts and the dashboard use; anything else panics.

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Number(f64),
    Select(Selector),
    /// `name(argument, ...)`.
    Call(String, Vec<Expr>),
    /// `sum by (labels) (of)`.
    Aggregate {
        by: Vec<String>,
        operation: String,
        of: Box<Expr>,
    },
    Binary(Box<Binary>),
}

#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub(crate) operation: String,
    pub(crate) left: Expr,
    pub(crate) right: Expr,
    /// Labels that must be equal; all of them, if nothing is said.
    pub(crate) on: Option<Vec<String>>,
    /// Many on the left belong to one on the right.
    pub(crate) group_left: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selector {
    pub(crate) name: String,
    /// Label, operator and value.
    pub(crate) matchers: Vec<(String, String, String)>,
    /// Seconds of a range.
    pub(crate) range: Option<f64>,
    pub(crate) offset: f64,
}

impl Expr {
    /// Calls `each` with every selector in it.
    pub(crate) fn selectors(&self, each: &mut impl FnMut(&Selector)) {
        match self {
            Self::Number(_) => {}
            Self::Select(selector) => each(selector),
            Self::Call(_, arguments) => arguments.iter().for_each(|of| of.selectors(each)),
            Self::Aggregate { of, .. } => of.selectors(each),
            Self::Binary(binary) => {
                binary.left.selectors(each);
                binary.right.selectors(each);
            }
        }
    }

    /// Calls `each` with every label that it groups or matches by.
    pub(crate) fn labels(&self, each: &mut impl FnMut(&str)) {
        match self {
            Self::Number(_) | Self::Select(_) => {}
            Self::Call(_, arguments) => arguments.iter().for_each(|of| of.labels(each)),
            Self::Aggregate { by, of, .. } => {
                by.iter().for_each(|label| each(label));
                of.labels(each);
            }
            Self::Binary(binary) => {
                let on = binary.on.iter().flatten();
                on.for_each(|label| each(label));
                binary.left.labels(each);
                binary.right.labels(each);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Number(f64),
    /// In seconds.
    Duration(f64),
    Text(String),
    Sign(String),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let take = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let end = if first.is_ascii_alphabetic() || first == '_' {
            let end = take(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else if first.is_ascii_digit() {
            let end = take(|c| c.is_ascii_alphanumeric() || c == '.');
            let word = &rest[..end];
            let seconds = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
            let duration = seconds.iter().find_map(|(unit, seconds)| {
                let number: f64 = word.strip_suffix(unit)?.parse().ok()?;
                Some(number * seconds)
            });
            tokens.push(match (duration, word.parse()) {
                (Some(seconds), _) => Token::Duration(seconds),
                (None, Ok(number)) => Token::Number(number),
                (None, Err(_)) => panic!("{word:?} in {text:?}"),
            });
            end
        } else if first == '"' {
            let end = rest[1..].find('"').expect("the text ends") + 1;
            assert!(!rest[..end].contains('\\'), "{rest:?}");
            tokens.push(Token::Text(rest[1..end].to_owned()));
            end + 1
        } else {
            let signs = [
                "==", "!=", ">=", "<=", "=~", "!~", "(", ")", "{", "}", "[", "]", ",", "=", ">",
                "<", "+", "-", "*", "/",
            ];
            let sign = signs.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.unwrap_or_else(|| panic!("{rest:?}"));
            tokens.push(Token::Sign((*sign).to_owned()));
            sign.len()
        };
        rest = rest[end..].trim_start();
    }
    tokens
}

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Expr {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let expression = parser.binary(0);
    assert_eq!(parser.at, parser.tokens.len(), "{text:?} goes on");
    expression
}

/// The operators from the loosest to the tightest.
const LEVELS: [&[&str]; 5] = [
    &["or"],
    &["and", "unless"],
    &["==", "!=", ">=", "<=", ">", "<"],
    &["+", "-"],
    &["*", "/"],
];
const AGGREGATIONS: [&str; 5] = ["sum", "count", "max", "min", "avg"];

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().expect("it goes on").clone();
        self.at += 1;
        token
    }

    /// Whether this comes next, and takes it then.
    fn is(&mut self, text: &str) -> bool {
        let found = match self.peek() {
            Some(Token::Word(word)) => word == text,
            Some(Token::Sign(sign)) => sign == text,
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) {
        assert!(self.is(text), "{text:?} instead of {:?}", self.peek());
    }

    fn word(&mut self) -> String {
        match self.next() {
            Token::Word(word) => word,
            other => panic!("{other:?} is no name"),
        }
    }

    fn seconds(&mut self) -> f64 {
        match self.next() {
            Token::Duration(seconds) => seconds,
            other => panic!("{other:?} is no duration"),
        }
    }

    fn names(&mut self) -> Vec<String> {
        self.expect("(");
        let mut names = Vec::new();
        while !self.is(")") {
            names.push(self.word());
            if !self.is(",") {
                self.expect(")");
                break;
            }
        }
        names
    }

    fn binary(&mut self, level: usize) -> Expr {
        let Some(operations) = LEVELS.get(level) else {
            return self.one();
        };
        let mut left = self.binary(level + 1);
        while let Some(operation) = operations.iter().find(|of| self.is(of)) {
            let on = self.is("on").then(|| self.names());
            let group_left = self.is("group_left");
            if group_left {
                assert!(self.names().is_empty(), "no label is taken over");
            }
            left = Expr::Binary(Box::new(Binary {
                operation: (*operation).to_owned(),
                right: self.binary(level + 1),
                left,
                on,
                group_left,
            }));
        }
        left
    }

    fn one(&mut self) -> Expr {
        match self.next() {
            Token::Number(number) => Expr::Number(number),
            Token::Sign(sign) if sign == "(" => {
                let inner = self.binary(0);
                self.expect(")");
                inner
            }
            Token::Word(word) if AGGREGATIONS.contains(&word.as_str()) => {
                let by = if self.is("by") {
                    self.names()
                } else {
                    Vec::new()
                };
                self.expect("(");
                let of = Box::new(self.binary(0));
                self.expect(")");
                let operation = word;
                Expr::Aggregate { by, operation, of }
            }
            Token::Word(word) if self.is("(") => {
                let mut arguments = Vec::new();
                while !self.is(")") {
                    arguments.push(self.binary(0));
                    if !self.is(",") {
                        self.expect(")");
                        break;
                    }
                }
                Expr::Call(word, arguments)
            }
            Token::Word(name) => Expr::Select(self.selector(name)),
            other => panic!("{other:?} is no beginning"),
        }
    }

    fn selector(&mut self, name: String) -> Selector {
        let mut matchers = Vec::new();
        if self.is("{") {
            while !self.is("}") {
                let label = self.word();
                let operators = ["=~", "!~", "!=", "="];
                let operator = operators.iter().find(|of| self.is(of));
                let operator = operator.expect("an operator");
                let Token::Text(value) = self.next() else {
                    panic!("{label} has no value");
                };
                matchers.push((label, (*operator).to_owned(), value));
                if !self.is(",") {
                    self.expect("}");
                    break;
                }
            }
        }
        let range = self.is("[").then(|| {
            let seconds = self.seconds();
            self.expect("]");
            seconds
        });
        let offset = if self.is("offset") {
            self.seconds()
        } else {
            0.0
        };
        Selector {
            name,
            matchers,
            range,
            offset,
        }
    }
}

/// Whether a text is what a pattern of alternatives, each with `.*` in it at most, says.
pub(crate) fn is_like(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|alternative| {
        let (begin, end) = match alternative.split_once(".*") {
            None => return plain(alternative) == text,
            Some(both) => both,
        };
        text.len() >= begin.len() + end.len()
            && text.starts_with(plain(begin))
            && text.ends_with(plain(end))
    })
}

fn plain(text: &str) -> &str {
    let special = |c: char| "\\.*+?()[]{}^$".contains(c);
    assert!(
        !text.contains(special),
        "{text:?} is more than is known of patterns"
    );
    text
}

#[test]
fn precedence_is_that_of_promql() {
    let Expr::Binary(all) = parse("a > 0 and on (x) b{y=\"z\"} - 1 == 2 * c or d[5m] offset 1h")
    else {
        panic!("it is a binary expression");
    };
    assert_eq!(all.operation, "or");
    let (Expr::Binary(both), Expr::Select(last)) = (&all.left, &all.right) else {
        panic!("{all:?}");
    };
    assert_eq!((last.range, last.offset), (Some(300.0), 3600.0));
    assert_eq!(
        (both.operation.as_str(), both.on.clone()),
        ("and", Some(vec!["x".to_owned()]))
    );
    let Expr::Binary(equal) = &both.right else {
        panic!("{both:?}");
    };
    assert_eq!(equal.operation, "==");
    assert!(is_like("group_.*|x", "group_empty") && is_like("group_.*|x", "x"));
    assert!(!is_like("group_.*|x", "a group_empty") && !is_like("group_.*|x", "xx"));
    assert!(is_like(".*", "") && is_like("a.*b", "ab") && !is_like("ab.*b", "ab"));
}
