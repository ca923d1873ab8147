//! Kafka's numbers for what can go wrong.

use alluvium_log_manager::{AppendError, LogError};
use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;

use crate::store::TopicError;

/// No error.
pub(super) const NONE: i16 = 0;

/// Why something was refused, as clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i16,
    pub(super) message: Option<String>,
}

impl Refusal {
    pub(super) fn new(error: ResponseError, message: impl Into<String>) -> Self {
        Self { code: error.code(), message: Some(message.into()) }
    }

    /// The message as the protocol has it.
    pub(super) fn text(&self) -> Option<StrBytes> {
        self.message.clone().map(StrBytes::from_string)
    }
}

impl From<ResponseError> for Refusal {
    fn from(error: ResponseError) -> Self {
        Self { code: error.code(), message: None }
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        Self { code: error.code().code(), message: Some(chain(error)) }
    }
}

impl From<&LogError> for Refusal {
    fn from(error: &LogError) -> Self {
        Self { code: error.code().code(), message: Some(chain(error)) }
    }
}

impl From<&TopicError> for Refusal {
    fn from(error: &TopicError) -> Self {
        let code = match error {
            TopicError::Exists { .. } => ResponseError::TopicAlreadyExists.code(),
            TopicError::Unknown => ResponseError::UnknownTopicOrPartition.code(),
            TopicError::Name { .. } | TopicError::Reserved { .. } | TopicError::Collides { .. } => {
                ResponseError::InvalidTopicException.code()
            }
            TopicError::PartitionCount { .. } | TopicError::FewerPartitions { .. } => {
                ResponseError::InvalidPartitions.code()
            }
            TopicError::Config { .. } => ResponseError::InvalidConfig.code(),
            TopicError::Manager { source } => source.code().code(),
            TopicError::Log { source } => source.code().code(),
            TopicError::File { .. } | TopicError::Store { .. } | TopicError::Id { .. } => {
                ResponseError::KafkaStorageError.code()
            }
        };
        Self { code, message: Some(chain(error)) }
    }
}

/// An error with all its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
