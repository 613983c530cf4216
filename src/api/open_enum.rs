//! Enums in the API whose values other versions of the operator may extend.

/// Defines an enum whose values are written as their names. A name that this version does not know is read as the value
/// after `else`: a value of its own, or one of the others after `else =`.
///
/// The schema does not list the values: an operator that is newer than the installed CRD must still be able to write its
/// status.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident {
            $($(#[$value_meta:meta])* $Value:ident,)*
        } else {
            $(#[$unknown_meta:meta])* $Unknown:ident
        }
    ) => {
        open_enum! {
            $(#[$meta])*
            #[derive(Default)]
            pub enum $Enum {
                $($(#[$value_meta])* $Value,)*
                $(#[$unknown_meta])*
                #[default]
                $Unknown,
            } else = $Unknown
        }

        impl $Enum {
            #[doc = concat!("All values except ", stringify!($Unknown), ".")]
            pub const ALL: &[Self] = &[$(Self::$Value,)*];
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident {
            $($(#[$value_meta:meta])* $Value:ident,)*
        } else = $Unknown:ident
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Enum {
            $($(#[$value_meta])* $Value,)*
        }

        impl $Enum {
            /// The name in specs, statuses and alerts.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Value => stringify!($Value),)*
                }
            }

            #[doc = concat!("The value of this name; ", stringify!($Unknown), " if this version has none.")]
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                [$(Self::$Value,)*].into_iter().find(|value| value.as_str() == name).unwrap_or(Self::$Unknown)
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $Enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                std::borrow::Cow::<'de, str>::deserialize(deserializer).map(|name| Self::from_name(&name))
            }
        }

        impl schemars::JsonSchema for $Enum {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Enum).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}

pub(super) use open_enum;

#[cfg(test)]
mod tests {
    use crate::api::{AlertPhase, Cause, Detail, MessageKind, ProblemKind};

    #[test]
    fn names_round_trip() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(cause).unwrap();
            assert_eq!((json.as_str(), cause.to_string()), (format!("\"{cause:?}\"").as_str(), format!("{cause:?}")));
            assert_eq!(serde_json::from_str::<Cause>(&json).unwrap(), *cause);
        }
        for kind in ProblemKind::ALL {
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(serde_json::from_str::<ProblemKind>(&json).unwrap(), *kind);
        }
    }

    #[test]
    fn unknown_names_are_accepted() {
        assert_eq!(serde_json::from_str::<Cause>(r#""Newer""#).unwrap(), Cause::Unknown);
        assert_eq!(serde_json::from_str::<ProblemKind>(r#""Newer""#).unwrap(), ProblemKind::Unknown);
        assert_eq!(serde_json::from_str::<AlertPhase>(r#""Newer""#).unwrap(), AlertPhase::Queued);
        assert_eq!(serde_json::from_str::<MessageKind>(r#""Newer""#).unwrap(), MessageKind::Firing);
        assert_eq!(serde_json::from_str::<Detail>(r#""Newer""#).unwrap(), Detail::Names);
        assert_eq!(serde_json::from_str::<Detail>(r#""Full""#).unwrap(), Detail::default());
    }
}
