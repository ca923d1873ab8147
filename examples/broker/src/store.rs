//! What the broker keeps on disk beside the records: who it is, its topics, their settings.

mod error;
mod identity;
mod producer_ids;
mod topic_settings;
mod topics;

pub(crate) use error::StoreError;
pub(crate) use identity::{Identity, IdentityError, random_uuid};
pub(crate) use producer_ids::ProducerIds;
pub(crate) use topic_settings::{Overrides, TopicSettings, config_with};
pub(crate) use topics::{NewTopic, Topic, TopicError, Topics, leader_epoch};
