//! Codec for frames between nodes.
//!
//! A frame whose bytes are not valid protobuf is decoded as an empty frame, which keeps its place among the other
//! frames of the stream. If decoding returned an error instead, the stream would end, and the sender would send the
//! same invalid bytes again on the next stream.

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

/// Codec that encodes like the codec of all other services, and also accepts bytes that are not valid protobuf.
pub(crate) struct FrameCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for FrameCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::default())
    }
}

impl<T, U> Codec for FrameCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = FrameDecoder<<ProstCodec<T, U> as Codec>::Decoder>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        FrameDecoder(self.0.decoder())
    }
}

/// Decoder of frames.
pub(crate) struct FrameDecoder<D>(D);

impl<D: Decoder<Error = Status, Item: Default>> Decoder for FrameDecoder<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Self::Error> {
        let decoded = self.0.decode(buf).unwrap_or_else(|_| Some(D::Item::default()));
        // The remaining bytes belong to this frame too.
        buf.advance(buf.remaining());
        Ok(decoded)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
