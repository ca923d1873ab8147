//! `ApiVersions`: what is served.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use super::{SERVED, codes, encode};
use crate::net::{Hangup, Header, Reply};

/// Answers a version that is too high in version 0, so that the client can ask again.
pub(super) fn answer(header: &Header) -> Result<Reply, Hangup> {
    let response = ApiVersionsResponse::default().with_api_keys(all());
    if super::serves(header.key, header.version) {
        return encode(header, header.version, &response.with_error_code(codes::NONE));
    }
    let response = response.with_error_code(ResponseError::UnsupportedVersion.code());
    encode(header, 0, &response)
}

fn all() -> Vec<ApiVersion> {
    let of = |served: &super::Served| {
        ApiVersion::default()
            .with_api_key(served.key as i16)
            .with_min_version(served.advertised_min)
            .with_max_version(served.max)
    };
    SERVED.iter().map(of).collect()
}
