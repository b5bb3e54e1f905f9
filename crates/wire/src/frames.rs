//! Frames between nodes as bytes.
//!
//! Promises: a frame that is no protobuf becomes an empty one, in its place among the others; otherwise it would end
//! the stream, and come again on the next. Must not know: what frames say.

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

/// Encodes as all other services do, and decodes also bytes that are no protobuf.
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

/// Decodes frames.
pub(crate) struct FrameDecoder<D>(D);

impl<D: Decoder<Error = Status, Item: Default>> Decoder for FrameDecoder<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Self::Error> {
        let decoded = self.0.decode(buf).unwrap_or_else(|_| Some(D::Item::default()));
        // The rest of the bytes belongs to this frame too.
        buf.advance(buf.remaining());
        Ok(decoded)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
