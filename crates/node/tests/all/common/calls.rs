//! Makes every call of the services with an empty message.

use std::time::Duration;

use bytes::Bytes;
use firstseen_wire::net::Channel;
use firstseen_wire::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use tonic::Code;
use tonic::client::Grpc;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A codec that passes messages unchanged.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, item: Bytes, room: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        bytes::BufMut::put(room, item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        Ok(Some(bytes::Buf::copy_to_bytes(bytes, bytes::Buf::remaining(bytes))))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

/// Returns the path `/SERVICE/METHOD` of every call of this project's services.
pub fn calls() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let of_file = |file: &prost_types::FileDescriptorProto| {
        let of_service = |service: &prost_types::ServiceDescriptorProto| {
            let path = format!("/{}.{}", file.package(), service.name());
            service.method.iter().map(move |method| format!("{path}/{}", method.name())).collect::<Vec<_>>()
        };
        file.service.iter().flat_map(of_service).collect::<Vec<_>>()
    };
    set.file.iter().flat_map(of_file).collect()
}

/// Returns whether the node rejects the call `path` for lack of rights. The call is made through the channel `to`,
/// whose certificate identifies the caller. It sends an empty message, or a stream that begins with an empty message.
pub async fn is_denied(to: Channel, path: &str) -> bool {
    let mut grpc = Grpc::new(to);
    grpc.ready().await.expect("a connection");
    let request = tonic::Request::new(tokio_stream::iter([Bytes::new()]));
    let answer = grpc.streaming(request, path.parse().expect("a path"), Raw).await;
    let code = match answer {
        Err(status) => status.code(),
        Ok(answer) => {
            let first = tokio::time::timeout(Duration::from_secs(5), answer.into_inner().message()).await;
            first.map_or(Code::Ok, |first| first.map_or_else(|status| status.code(), |_| Code::Ok))
        }
    };
    code == Code::PermissionDenied
}
