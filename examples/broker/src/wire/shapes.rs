//! The form of each request that is decoded by `kafka-protocol`, as in the schemas of Kafka.

use kafka_protocol::messages::ApiKey;

use super::shape::{Field, Kind, Shape};

/// The form of a request; `None` for those that are read by hand or not at all.
pub(super) const fn of(key: ApiKey) -> Option<&'static Shape> {
    Some(match key {
        ApiKey::ListOffsets => &LIST_OFFSETS,
        ApiKey::Metadata => &METADATA,
        ApiKey::FindCoordinator => &FIND_COORDINATOR,
        ApiKey::CreateTopics => &CREATE_TOPICS,
        ApiKey::DeleteTopics => &DELETE_TOPICS,
        ApiKey::DeleteRecords => &DELETE_RECORDS,
        ApiKey::InitProducerId => &INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => &OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DescribeConfigs => &DESCRIBE_CONFIGS,
        ApiKey::DescribeLogDirs => &DESCRIBE_LOG_DIRS,
        ApiKey::CreatePartitions => &CREATE_PARTITIONS,
        ApiKey::IncrementalAlterConfigs => &INCREMENTAL_ALTER_CONFIGS,
        ApiKey::DescribeCluster => &DESCRIBE_CLUSTER,
        _ => return None,
    })
}

const fn since(from: i16, kind: Kind) -> Field {
    Field { from, to: i16::MAX, kind }
}

const fn between(from: i16, to: i16, kind: Kind) -> Field {
    Field { from, to, kind }
}

const fn always(kind: Kind) -> Field {
    since(0, kind)
}

const I8: Kind = Kind::Fixed(1);
const BOOL: Kind = Kind::Fixed(1);
const I16: Kind = Kind::Fixed(2);
const I32: Kind = Kind::Fixed(4);
const I64: Kind = Kind::Fixed(8);
const UUID: Kind = Kind::Fixed(16);

const LIST_OFFSETS: Shape = Shape {
    flexible_from: 6,
    fields: &[
        always(I32),
        since(2, I8),
        always(Kind::Array(&Kind::Struct(&[
            always(Kind::Text),
            always(Kind::Array(&Kind::Struct(&[always(I32), since(4, I32), always(I64)]))),
        ]))),
        since(10, I32),
    ],
};

const METADATA: Shape = Shape {
    flexible_from: 9,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[since(10, UUID), always(Kind::Text)]))),
        since(4, BOOL),
        between(8, 10, BOOL),
        since(8, BOOL),
    ],
};

const FIND_COORDINATOR: Shape = Shape {
    flexible_from: 3,
    fields: &[between(0, 3, Kind::Text), since(1, I8), since(4, Kind::Array(&Kind::Text))],
};

const CREATE_TOPICS: Shape = Shape {
    flexible_from: 5,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[
            always(Kind::Text),
            always(I32),
            always(I16),
            always(Kind::Array(&Kind::Struct(&[always(I32), always(Kind::Array(&I32))]))),
            always(Kind::Array(&Kind::Struct(&[always(Kind::Text), always(Kind::Text)]))),
        ]))),
        always(I32),
        always(BOOL),
    ],
};

const DELETE_TOPICS: Shape = Shape {
    flexible_from: 4,
    fields: &[
        since(6, Kind::Array(&Kind::Struct(&[always(Kind::Text), always(UUID)]))),
        between(0, 5, Kind::Array(&Kind::Text)),
        always(I32),
    ],
};

const DELETE_RECORDS: Shape = Shape {
    flexible_from: 2,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[
            always(Kind::Text),
            always(Kind::Array(&Kind::Struct(&[always(I32), always(I64)]))),
        ]))),
        always(I32),
    ],
};

const INIT_PRODUCER_ID: Shape = Shape {
    flexible_from: 2,
    fields: &[always(Kind::Text), always(I32), since(3, I64), since(3, I16)],
};

const OFFSET_FOR_LEADER_EPOCH: Shape = Shape {
    flexible_from: 4,
    fields: &[
        since(3, I32),
        always(Kind::Array(&Kind::Struct(&[
            always(Kind::Text),
            always(Kind::Array(&Kind::Struct(&[always(I32), always(I32), always(I32)]))),
        ]))),
    ],
};

const DESCRIBE_CONFIGS: Shape = Shape {
    flexible_from: 4,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[
            always(I8),
            always(Kind::Text),
            always(Kind::Array(&Kind::Text)),
        ]))),
        always(BOOL),
        since(3, BOOL),
    ],
};

const DESCRIBE_LOG_DIRS: Shape = Shape {
    flexible_from: 2,
    fields: &[always(Kind::Array(&Kind::Struct(&[always(Kind::Text), always(Kind::Array(&I32))])))],
};

const CREATE_PARTITIONS: Shape = Shape {
    flexible_from: 2,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[
            always(Kind::Text),
            always(I32),
            always(Kind::Array(&Kind::Struct(&[always(Kind::Array(&I32))]))),
        ]))),
        always(I32),
        always(BOOL),
    ],
};

const INCREMENTAL_ALTER_CONFIGS: Shape = Shape {
    flexible_from: 1,
    fields: &[
        always(Kind::Array(&Kind::Struct(&[
            always(I8),
            always(Kind::Text),
            always(Kind::Array(&Kind::Struct(&[
                always(Kind::Text),
                always(I8),
                always(Kind::Text),
            ]))),
        ]))),
        always(BOOL),
    ],
};

const DESCRIBE_CLUSTER: Shape =
    Shape { flexible_from: 0, fields: &[always(BOOL), since(1, I8), since(2, BOOL)] };
