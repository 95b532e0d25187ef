// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where values are said: flags, the environment, a file.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::rows::{Kind, Row, CONFIG_VARIABLE, PREFIX, ROWS, STATE_DIR};
use super::Fault;

/// What was said on the command line, before it is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    file: Option<PathBuf>,
    values: Vec<(&'static Row, String)>,
}

impl Flags {
    /// Whether none was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.is_none() && self.values.is_empty()
    }

    /// Sets the directory of the state, which is a flag of all verbs.
    pub(crate) fn state_dir(&mut self, path: &Path) {
        let text = path.to_string_lossy().into_owned();
        self.values.push((&STATE_DIR, text));
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = own_rows().filter_map(|row| {
            let text = matches.get_one::<String>(row.flag)?;
            Some((row, text.clone()))
        });
        Ok(Self {
            file: matches.get_one::<PathBuf>("config").cloned(),
            values: values.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(format!(
                "File of values: one JSON object, with flag names that have _ for - [env: \
                 {CONFIG_VARIABLE}]"
            ));
        own_rows().fold(command.arg(file), |command, row| {
            let default = match row.default {
                Some("") => "none".to_owned(),
                Some(default) => default.to_owned(),
                None => "must be given".to_owned(),
            };
            let help = format!(
                "{}: {} [default: {default}] [env: {}]",
                row.help, row.accepted, row.variable
            );
            let argument = Arg::new(row.flag)
                .long(row.flag)
                .value_name("VALUE")
                .allow_hyphen_values(true)
                .help(help);
            command.arg(match row.kind {
                // Alone it says yes.
                Kind::Bool => argument
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                _ => argument,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn own_rows() -> impl Iterator<Item = &'static Row> {
    let rows = ROWS.iter().copied();
    rows.filter(|row| row.flag != STATE_DIR.flag)
}

/// Who said a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable,
    File(PathBuf),
    Default,
}

impl Origin {
    /// The name of its kind.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Variable => "environment",
            Self::File(_) => "file",
            Self::Default => "default",
        }
    }

    /// What it is called there: the flag, the variable, or the file and its field.
    pub(crate) fn place(&self, row: &Row) -> String {
        match self {
            Self::Flag => format!("--{}", row.flag),
            Self::Variable => row.variable.to_owned(),
            Self::File(path) => format!("{}: {}", path.display(), row.field()),
            Self::Default => format!("--{}", row.flag),
        }
    }
}

/// A value as it was said.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) row: &'static Row,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The values that are in force, flags before variables before the file before defaults: one for
/// each row that has one. What is wrong anywhere is a fault, also where something else overrules it.
pub(crate) fn gather(
    flags: &Flags,
    environment: &[(OsString, OsString)],
    faults: &mut Vec<Fault>,
) -> Vec<Said> {
    let variables = variables(environment, faults);
    let file = flags.file.clone().or(variables.file);
    let fields = file.map_or_else(Vec::new, |path| fields(&path, faults));
    let all = |row: &'static Row| {
        let of = |(_, text): &(&'static Row, String)| text.clone();
        let same = |said: &&(&'static Row, String)| said.0.flag == row.flag;
        let flag = flags.values.iter().find(same).map(of);
        let variable = variables.values.iter().find(same).map(of);
        let field = fields.iter().find(|said| said.row.flag == row.flag);
        flag.map(|text| (text, Origin::Flag))
            .or_else(|| variable.map(|text| (text, Origin::Variable)))
            .or_else(|| field.map(|said| (said.text.clone(), said.origin.clone())))
            .or_else(|| Some((row.default?.to_owned(), Origin::Default)))
            .map(|(text, origin)| Said { row, text, origin })
    };
    ROWS.iter().copied().filter_map(all).collect()
}

#[derive(Default)]
struct Variables {
    file: Option<PathBuf>,
    values: Vec<(&'static Row, String)>,
}

/// Every variable with the prefix; one that means nothing is a fault.
fn variables(environment: &[(OsString, OsString)], faults: &mut Vec<Fault>) -> Variables {
    let mut variables = Variables::default();
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| is_ours(name))
        .collect();
    ours.sort_unstable();
    for (name, value) in ours {
        let shown = name.to_string_lossy();
        if *shown == *CONFIG_VARIABLE {
            variables.file = Some(PathBuf::from(value));
            continue;
        }
        let row = ROWS.iter().copied().find(|row| *shown == *row.variable);
        match (row, value.to_str()) {
            (Some(row), Some(value)) => variables.values.push((row, value.to_owned())),
            (Some(row), None) => {
                let message = format!("is not UTF-8: {value:?}; must be {}", row.accepted);
                faults.push(Fault::new(shown, "type", message));
            }
            (None, _) => {
                let known = ROWS.iter().map(|row| row.variable);
                let message = format!("is no variable of this program{}", nearest(&shown, known));
                faults.push(Fault::new(shown, "unknown", message));
            }
        }
    }
    variables
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// The values of a configuration file.
fn fields(path: &Path, faults: &mut Vec<Fault>) -> Vec<Said> {
    let file = path.display();
    let members = match std::fs::read(path) {
        Err(error) => {
            faults.push(Fault::new(file, "io", format!("cannot read it: {error}")));
            return Vec::new();
        }
        Ok(bytes) => match serde_json::from_slice::<Members>(&bytes) {
            Ok(Members(members)) => members,
            Err(error) => {
                let message = format!("is not one JSON object: {error}");
                faults.push(Fault::new(file, "json", message));
                return Vec::new();
            }
        },
    };
    let mut said: Vec<Said> = Vec::new();
    for (name, value) in members {
        let place = format!("{file}: {name}");
        let Some(row) = ROWS.iter().copied().find(|row| row.field() == name) else {
            let known: Vec<_> = ROWS.iter().map(|row| row.field()).collect();
            let hint = nearest(&name, known.iter().map(String::as_str));
            let message = format!("is no field of a configuration{hint}");
            faults.push(Fault::new(place, "unknown", message));
            continue;
        };
        if said.iter().any(|said| said.row.flag == row.flag) {
            faults.push(Fault::new(place, "duplicate-member", "is there twice"));
            continue;
        }
        match text(&value, row.kind) {
            Some(text) => said.push(Said {
                row,
                text,
                origin: Origin::File(path.to_owned()),
            }),
            None => {
                let message = format!("must be {}, got {value}", row.accepted);
                faults.push(Fault::new(place, "type", message));
            }
        }
    }
    said
}

/// A JSON value as a flag would say it.
fn text(value: &Value, kind: Kind) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if kind != Kind::List => Some(number.to_string()),
        Value::Bool(value) if kind == Kind::Bool => Some(value.to_string()),
        Value::Array(values) if kind == Kind::List => {
            let texts: Option<Vec<_>> = values.iter().map(Value::as_str).collect();
            // An entry that is empty, or several, would be read as something else.
            let texts = texts.filter(|texts| texts.iter().all(|text| is_entry(text)))?;
            Some(texts.join(","))
        }
        _ => None,
    }
}

fn is_entry(text: &str) -> bool {
    !text.is_empty() && !text.contains(',')
}

/// The one that was probably meant.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let close = known.map(|known| (distance(name, known), known)).min();
    match close {
        Some((distance, known)) if distance <= 3 => format!("; is {known} meant?"),
        _ => String::new(),
    }
}

/// Letters to change, add or remove to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = at;
        row[0] = at + 1;
        for (column, &wanted) in other.iter().enumerate() {
            let kept = before + usize::from(letter != wanted);
            before = row[column + 1];
            row[column + 1] = kept.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// The members of an object, doubles kept.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
