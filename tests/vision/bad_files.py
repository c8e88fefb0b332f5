"""Bad pictures and clips by the thousand, and a program that reads them: `python bad_files.py COUNT [SEED]`.

It prints how many were read, how many of them refused, by how many megabytes memory grew, and the seconds of the
slowest. Anything that is neither read nor refused by name ends it with an error.
"""

import random
import resource
import struct
import sys
import time

from PIL import Image

from gesso.errors import ImageError
from gesso.vision.limits import ImageLimits, VideoLimits
from gesso.vision.preprocess import prepare_image
from gesso.vision.video import prepare_video
from vision.clips import animation, video
from vision.pictures import encoded, photo

ADDRESS_SPACE = 6 * 2**30
"""Bytes that the program may reserve: far above what reading takes, far below what a lying header asks for."""


def _good() -> dict[str, bytes]:
    picture, exif = photo(96, 64), Image.Exif()
    exif[0x0112] = 6
    return {
        "png": encoded(picture, "PNG"),
        "png of 16 bits": encoded(picture.convert("I;16"), "PNG"),
        "png of a palette": encoded(picture.quantize(16), "PNG", transparency=3),
        "animated png": animation("PNG", [0, 100, 200], 100),
        "jpeg": encoded(picture, "JPEG", exif=exif),
        "progressive jpeg": encoded(picture, "JPEG", progressive=True),
        "cmyk jpeg": encoded(picture.convert("CMYK"), "JPEG"),
        "webp": encoded(picture, "WEBP", exif=exif),
        "lossless webp": encoded(picture.convert("RGBA"), "WEBP", lossless=True),
        "animated webp": animation("WEBP", [0, 100, 200], 100),
        "gif": animation("GIF", [0, 100, 200], 100),
        "bmp": encoded(picture, "BMP"),
        "tiff": encoded(picture, "TIFF", exif=exif),
        "lzw tiff": encoded(picture, "TIFF", compression="tiff_lzw"),
        "jpeg tiff": encoded(picture, "TIFF", compression="jpeg"),
        "ppm": encoded(picture, "PPM"),
        "avif": encoded(picture, "AVIF"),
    }


GOOD = _good()


def spoil(data: bytes, draw: random.Random) -> bytes:
    """One of the ways in which files go bad, or several."""
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(out)) if len(out) > 1 else 0
        match draw.randrange(7):
            case 0:  # cut off
                del out[place + 1 :]
            case 1:  # flipped bits
                for _ in range(draw.randint(1, 20)):
                    out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
            case 2:  # a length or a size that lies
                value = draw.choice([0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(32)])
                packed = struct.pack(draw.choice("<>") + "I", value)
                place = draw.randrange(min(64, len(out)))
                out[place : place + 4] = packed
            case 3:  # a stretch of something else
                out[place : place + draw.randint(1, 64)] = draw.randbytes(draw.randint(0, 64))
            case 4:  # a stretch twice
                out[place:place] = out[place : place + draw.randint(1, 500)]
            case 5:  # a hole
                del out[place : place + draw.randint(1, 200)]
            case _:  # zeros
                end = min(len(out), place + draw.randint(1, 300))
                out[place:end] = bytes(end - place)
        if not out:
            return b"\0"
    return bytes(out)


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    clips = {"mp4": video(2, 12), "webm": video(1, 12, "webm", "libvpx"), "avi": video(2, 12, "avi")}
    for data in GOOD.values():  # what decoding takes once is not growth
        prepare_image(data)
    for data in clips.values():
        prepare_video(data)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    draw, refused, slowest = random.Random(seed), 0, 0.0
    for number in range(count):
        started = time.monotonic()
        try:
            if number % 10 == 9:
                name = draw.choice(["gif", "animated webp", "animated png", *clips])
                file = spoil({**GOOD, **clips}[name], draw)
                prepare_video(file, limits=VideoLimits(max_pixels=10**6, max_seconds=5.0))
            else:
                name = draw.choice(sorted(GOOD))
                file = spoil(GOOD[name], draw)
                prepare_image(file, draw.choice([70, 280]), limits=ImageLimits(max_pixels=4 * 10**6))
        except ImageError:
            refused += 1
        except BaseException:
            sys.stderr.write(f"file {number} of seed {seed}, a {name}: {file[:200]!r}\n")
            raise
        slowest = max(slowest, time.monotonic() - started)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    sys.stdout.write(f"{count} {refused} {grown:.1f} {slowest:.3f}\n")


if __name__ == "__main__":
    main()
