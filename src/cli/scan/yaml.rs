//! Reads a YAML stream document by document, without a bound on its length.

use std::io::BufRead;

use serde_json::Value;

use crate::cli::yaml::{Documents, YamlError};

use super::{
    document::{Document, Reading},
    file_error::FileError,
};

/// Reads the documents of the input.
pub(super) fn read(input: impl BufRead, reading: &mut Reading<'_>) -> Result<(), FileError> {
    let mut documents = Documents::new(input);
    while documents.begin_next()? {
        documents.deserialize(Document::<Value>::of(reading))?;
    }
    Ok(())
}

impl From<YamlError> for FileError {
    fn from(error: YamlError) -> Self {
        match error {
            YamlError::Io(error) => Self::Io(error),
            YamlError::Syntax(line) => Self::Syntax(line, "YAML"),
            YamlError::Shape => Self::NotPods("YAML of another shape".to_owned()),
        }
    }
}
