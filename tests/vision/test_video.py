"""Clips: which moments are shown, what they are labelled, and that the frame is the one on the screen then."""

import base64
import io
import math
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gesso.errors import ImageError, OptionError
from gesso.extras import pip_install
from gesso.vision.limits import VideoLimits
from gesso.vision.preprocess import prepare_image
from gesso.vision.video import PreparedFrame, Sampling, prepare_video, timestamp
from vision.clips import animation, grey, level, slides, video
from vision.pictures import encoded, photo


def seen(frames: list[PreparedFrame]) -> list[tuple[float, int]]:
    return [(round(frame.seconds, 3), level(frame.image)) for frame in frames]


@given(st.floats(0, 10_000), st.floats(0.01, 50), st.integers(1, 100))
def test_moments_begin_at_zero_rise_and_end_before_the_clip(duration: float, fps: float, most: int) -> None:
    times = Sampling(fps, most).times(duration)
    assert times[0] == 0
    assert 1 <= len(times) <= most
    assert all(one < other for one, other in pairwise(times))
    if len(times) > 1:
        assert times[-1] < duration
    if duration * fps <= most - 1:
        assert len(times) in (max(1, math.floor(duration * fps)), math.ceil(duration * fps))


def test_one_frame_a_second_up_to_sixty_spread_evenly_beyond() -> None:
    assert Sampling().times(5.0) == [0, 1, 2, 3, 4]
    assert Sampling().times(5.2) == [0, 1, 2, 3, 4, 5]
    assert Sampling().times(60.0) == list(range(60))
    assert Sampling().times(120.0) == [2.0 * i for i in range(60)]
    assert Sampling(2.0, 10).times(1.6) == [0, 0.5, 1.0, 1.5]
    assert Sampling(1.7e308, 2).times(10.0) == [0, 5.0]


@pytest.mark.parametrize(
    "options",
    [
        *({"fps": value} for value in (0, -1, math.nan, math.inf, "1")),
        *({"max_frames": value} for value in (0, 1.5)),
    ],
)
def test_samplings_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        Sampling(**options)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "00:00"),
        (0.99, "00:00"),
        (59.999, "00:59"),
        (60, "01:00"),
        (3599.5, "59:59"),
        (5999, "99:59"),
        (6000, "100:00"),
    ],
)
def test_timestamps_are_floored(seconds: float, expected: str) -> None:
    assert timestamp(seconds) == expected


def test_frames_that_are_given_are_taken_whole() -> None:
    picture = photo(192, 108)
    frames = prepare_video([(picture, 0), (encoded(picture, "PNG"), 0.5), (picture, 61.9)])
    assert [frame.timestamp for frame in frames] == ["00:00", "00:00", "01:01"]
    assert {frame.image.soft_tokens for frame in frames} == {66}
    assert {frame.image.digest for frame in frames} == {prepare_image(picture, 70).digest}
    assert prepare_video([(picture, 3)], budget=280)[0].image.soft_tokens == prepare_image(picture).soft_tokens


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "has no frames"),
        (5, "a clip must be a path"),
        (grey(1), "a clip must be a path"),
        ([grey(1)], r"frame 1 of the clip must be \(picture, seconds\)"),
        ([(grey(1), 1), (grey(2), 0.5)], "frame 2 of the clip is at 0.5"),
        ([(grey(1), -1)], "at -1"),
        ([(grey(1), math.nan)], "at nan"),
        ([(grey(1), math.inf)], "at inf"),
        ([(grey(1), True)], "at True"),
        ([(grey(1), "0")], "at '0'"),
        ([(grey(1), 0), (b"no picture at all", 1)], "frame 2 of the clip: the image is no image"),
        ([(grey(1), i) for i in range(61)], "has 61 frames, more than max_frames, which is 60"),
    ],
)
def test_frames_that_cannot_be(frames: Any, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        prepare_video(frames)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_animations_show_the_frame_of_the_moment(kind: str) -> None:
    data = animation(kind, [0, 100, 200], [1500, 400, 2100])  # on the screen from 0, 1.5 and 1.9 s; ends at 4
    assert seen(prepare_video(data)) == [(0, 0), (1, 0), (2, 200), (3, 200)]
    quick = prepare_video(data, sampling=Sampling(fps=2))
    assert seen(quick)[2:5] == [(1, 0), (1.5, 100), (2, 200)]
    assert seen(prepare_video(data, sampling=Sampling(max_frames=2))) == [(0, 0), (2, 200)]


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("kind", ["WEBP", "PNG"])
def test_an_animation_s_frames_are_turned_as_exif_says(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pictures = [photo(120, 40, seed) for seed in range(3)]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(
        pictures[0], kind, save_all=True, append_images=pictures[1:], duration=1000, exif=exif.tobytes(), **options
    )
    turned = [prepare_image(encoded(picture, "PNG", exif=exif), 70).digest for picture in pictures]
    assert [frame.image.digest for frame in prepare_video(data)] == turned


def test_an_animation_shorter_than_a_second_and_one_without_durations() -> None:
    assert seen(prepare_video(animation("GIF", [50, 100], 40))) == [(0, 50)]
    levels = list(range(0, 240, 10))
    still = prepare_video(animation("GIF", levels, 0))  # 24 frames of a tenth of a second
    assert seen(still) == [(0, 0), (1, 100), (2, 200)]
    assert seen(prepare_video(encoded(grey(70), "PNG"))) == [(0, 70)]


def test_a_still_before_the_animation_is_no_frame() -> None:
    data = encoded(
        grey(250), "PNG", save_all=True, default_image=True, append_images=[grey(0), grey(100)], duration=1000
    )
    assert Image.open(io.BytesIO(data)).n_frames == 3
    assert seen(prepare_video(data)) == [(0, 0), (1, 100)]


@pytest.mark.parametrize(("container", "codec"), [("mp4", "mpeg4"), ("matroska", "mpeg4"), ("webm", "libvpx")])
def test_the_last_frame_of_a_slow_clip_is_shown_to_its_end(container: str, codec: str) -> None:
    data = slides([0, 80, 160], 4, container, codec)  # on the screen from 0, 4 and 8 s; ends at 12
    frames = seen(prepare_video(data))
    assert [second for second, _ in frames] == list(range(12))
    for second, found in frames:
        assert abs(found - 80 * (second // 4)) <= 3
    assert abs(seen(prepare_video(data, sampling=Sampling(0.1)))[-1][1] - 160) <= 3  # the moment 10 s


def test_an_animation_from_a_file_and_a_data_url(tmp_path: Path) -> None:
    data = animation("GIF", [0, 100, 200], 1000)
    path = tmp_path / "clip.gif"
    path.write_bytes(data)
    url = "data:image/gif;base64," + base64.b64encode(data).decode()
    assert seen(prepare_video(path)) == seen(prepare_video(url)) == [(0, 0), (1, 100), (2, 200)]


@pytest.mark.parametrize(
    ("container", "codec", "fps", "key_frames"),
    [("mp4", "mpeg4", 24, 12), ("mp4", "mpeg4", 30, 300), ("webm", "libvpx", 25, 30), ("matroska", "mpeg4", 12, 1),
     ("avi", "mpeg4", 24, 12), ("mpegts", "mpeg2video", 25, 10)],
)  # fmt: skip
def test_video_files_show_the_frame_of_the_moment(container: str, codec: str, fps: int, key_frames: int) -> None:
    frames = prepare_video(video(5, fps, container, codec, key_frames))
    assert [frame.seconds for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame.timestamp for frame in frames] == ["00:00", "00:01", "00:02", "00:03", "00:04"]
    for frame in frames:  # colours are rounded on the way through YUV
        assert abs(level(frame.image) - (16 + 10 * frame.seconds)) <= 3


@pytest.mark.parametrize("key_frames", [4, 1000])
@pytest.mark.parametrize("container", ["mp4", "avi", "mpegts"])
def test_a_long_clip_is_jumped_through_and_stays_on_time(container: str, key_frames: int) -> None:
    codec = "mpeg2video" if container == "mpegts" else "mpeg4"
    data = video(20, 25, container, codec, key_frames)
    frames = prepare_video(data, sampling=Sampling(max_frames=4))
    assert len(frames) == 4
    for number, frame in enumerate(frames):
        assert frame.seconds == pytest.approx(5.0 * number, abs=0.3)
        assert abs(level(frame.image) - (16 + 10 * frame.seconds)) <= 4


def test_a_file_that_does_not_say_how_long_it_is() -> None:
    data = video(4, 25, "webm", "libvpx", options={"live": "1"})
    assert [frame.seconds for frame in prepare_video(data)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"hello" * 100, "no video that can be read: Invalid data found when processing input$"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "no video"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "no video"),
        (encoded(photo(60, 40), "JPEG"), "no video"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_video_is_refused_and_playlists_are_not_followed(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        prepare_video(data)


def test_a_playlist_reaches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "real.ts").write_bytes(video(2, 25, "mpegts", "mpeg2video"))
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{tmp_path}/real.ts\n#EXT-X-ENDLIST\n"
    (tmp_path / "list.m3u8").write_text(playlist, "utf-8")
    assert len(prepare_video(tmp_path / "real.ts")) == 2
    with pytest.raises(ImageError, match="no video"):
        prepare_video(tmp_path / "list.m3u8")


def test_truncated_clips_are_refused_or_end_early() -> None:
    data = video(5)
    with pytest.raises(ImageError, match="is truncated"):
        prepare_video(data[: len(data) // 2])  # the index stands at its end
    stream = video(5, 25, "mpegts", "mpeg2video")
    assert 1 <= len(prepare_video(stream[: len(stream) // 2])) < 5


def test_limits_of_clips() -> None:
    data = video(3)
    with pytest.raises(ImageError, match="96 x 64 pixels; at most 1,000"):
        prepare_video(data, limits=VideoLimits(max_pixels=1000))
    with pytest.raises(ImageError, match="bytes or more; at most 500"):
        prepare_video(data, limits=VideoLimits(max_bytes=500))
    for slow in (data, animation("GIF", [0, 100, 200], 1000)):
        with pytest.raises(ImageError, match=r"takes (more than|too long)"):
            prepare_video(slow, limits=VideoLimits(max_seconds=1e-9))


def test_a_telephone_s_clip_is_turned_upright(monkeypatch: pytest.MonkeyPatch) -> None:
    from gesso.vision import video_file

    class Frame:
        rotation = 90

        def to_ndarray(self, format: str) -> Any:  # noqa: A002 - PyAV's name
            import numpy as np

            assert format == "rgb24"
            return np.asarray(photo(96, 64))

    turned = video_file._upright(Frame())
    assert turned.size == (64, 96)
    assert turned.tobytes() == photo(96, 64).transpose(Image.Transpose.ROTATE_90).tobytes()


def test_without_pyav_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(OptionError, match=re.escape(pip_install("video"))):
        prepare_video(b"anything")
    assert prepare_video(animation("GIF", [0, 1], 100))
