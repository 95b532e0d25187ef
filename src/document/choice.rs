// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members of a document that take one text of a short list.

/// A type whose values each have one fixed text.
pub(crate) trait Choice: Copy + 'static {
    /// Every value, in the order in which messages name them.
    const ALL: &'static [Self];

    /// Their texts.
    const TEXTS: &'static [&'static str];
}

/// Defines an enum whose variants are written as fixed texts in documents and outputs.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$doc:meta])* $variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $( $(#[$doc])* #[serde(rename = $text)] $variant, )+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The text of this value in documents and outputs.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::document::choice::Choice for $name {
            const ALL: &'static [Self] = Self::ALL;
            const TEXTS: &'static [&'static str] = &[ $( $text, )+ ];
        }

        impl $crate::document::field::Written for $name {
            fn written(&self) -> $crate::document::tree::Value {
                $crate::document::tree::Value::Text(self.to_string())
            }
        }
    };
}
pub(crate) use choice;
